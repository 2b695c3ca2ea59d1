package queue

// order is the keys that wait for a worker: first those that may not wait for others, each kind in the order in which it came.
type order[K comparable] struct {
	later func(K) bool
	// waiting says of each key whether it is in the second line. A key that changed lines is left in the one that it was in,
	// and passed over there.
	waiting       map[K]bool
	first, second line[K]
	// passed counts how many of the first line went before one of the second in a row.
	passed int
}

// patience is how many of the first line may go before one of the second: without an end to the first, the second would
// never come. It is large, since one of the second may take a thousand times as long: a worker that it holds up serves nobody.
const patience = 256

func newOrder[K comparable](later func(K) bool) *order[K] {
	return &order[K]{later: later, waiting: map[K]bool{}}
}

// Touch satisfies workqueue.Queue: a key that waits is added again, and may be urgent now.
func (o *order[K]) Touch(key K) {
	if waits, here := o.waiting[key]; here && waits && !o.later(key) {
		o.waiting[key] = false
		o.first.push(key)
	}
}

// Push satisfies workqueue.Queue.
func (o *order[K]) Push(key K) {
	waits := o.later(key)
	o.waiting[key] = waits
	if waits {
		o.second.push(key)
	} else {
		o.first.push(key)
	}
}

// Len satisfies workqueue.Queue.
func (o *order[K]) Len() int { return len(o.waiting) }

// Pop satisfies workqueue.Queue. It is called only when there is a key.
func (o *order[K]) Pop() K {
	if o.passed < patience {
		if key, ok := o.pop(&o.first, false); ok {
			o.passed++
			return key
		}
	}
	o.passed = 0
	if key, ok := o.pop(&o.second, true); ok {
		return key
	}
	key, _ := o.pop(&o.first, false)
	return key
}

func (o *order[K]) pop(l *line[K], waits bool) (K, bool) {
	for {
		key, ok := l.pop()
		if !ok {
			return key, false
		}
		if is, here := o.waiting[key]; here && is == waits {
			delete(o.waiting, key)
			return key, true
		}
	}
}

// line is first in, first out.
type line[K comparable] struct {
	keys []K
	from int
}

func (l *line[K]) push(key K) { l.keys = append(l.keys, key) }

func (l *line[K]) pop() (key K, ok bool) {
	if l.from == len(l.keys) {
		return key, false
	}
	key, l.keys[l.from] = l.keys[l.from], key
	if l.from++; l.from*2 >= len(l.keys) {
		l.keys, l.from = append(l.keys[:0], l.keys[l.from:]...), 0
	}
	return key, true
}
