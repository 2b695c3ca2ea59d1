package queue

import (
	"slices"
	"testing"
)

func TestUrgentKeysGoFirstAndTheOthersInTheEnd(t *testing.T) {
	urgent := map[int]bool{}
	o := newOrder(func(key int) bool { return !urgent[key] })
	for key := range 1000 {
		o.Push(key)
	}
	urgent[700], urgent[5000], urgent[5001] = true, true, true
	o.Touch(700) // it waits, and has become urgent
	o.Touch(700)
	o.Push(5000)
	o.Push(5001)
	if o.Len() != 1002 {
		t.Fatalf("%d keys of 1002", o.Len())
	}
	var got []int
	for o.Len() > 0 {
		got = append(got, o.Pop())
	}
	if !slices.Equal(got[:5], []int{700, 5000, 5001, 0, 1}) {
		t.Errorf("first %v", got[:5])
	}
	if slices.Sort(got); len(slices.Compact(got)) != 1002 || len(got) != 1002 {
		t.Errorf("%d keys came out", len(got))
	}
}

func TestUrgentKeysWithoutEndDoNotKeepTheOthersWaiting(t *testing.T) {
	o := newOrder(func(key int) bool { return key < 0 })
	o.Push(-1)
	o.Push(-2)
	for key := range 3 * patience {
		o.Push(key)
		o.Push(key + 1000)
		if got := o.Pop(); got < 0 && key < patience {
			t.Fatalf("%d came after %d urgent ones", got, key)
		}
	}
	for _, key := range []int{-1, -2} {
		if _, waits := o.waiting[key]; waits {
			t.Errorf("%d waits still", key)
		}
	}
}
