package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func reportOf(t *testing.T, lines ...string) (counts, string) {
	t.Helper()
	var shown bytes.Buffer
	r := newReport(&shown)
	if err := r.read(strings.NewReader(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	return r.counts, shown.String()
}

func TestLeavesAreCountedAndParentsAreNot(t *testing.T) {
	got, shown := reportOf(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestA/x"}`,
		`{"Action":"output","Package":"p","Test":"TestA/x","Output":"chatter\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
		`{"Action":"run","Package":"p","Test":"TestA/y"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/y"}`,
		`{"Action":"pass","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestB"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"no such device\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestB"}`,
		`{"Action":"output","Package":"p","Output":"PASS\n"}`,
		`{"Action":"pass","Package":"p","Elapsed":1.5}`)
	if (got != counts{passed: 2, skipped: 1}) {
		t.Errorf("%+v", got)
	}
	if want := "no such device\nok   p (1.5s): 2 passed, 1 skipped\n"; shown != want {
		t.Errorf("shown %q, want %q", shown, want)
	}
}

func TestAFailuresOutputIsShown(t *testing.T) {
	got, shown := reportOf(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"want 1, got 2\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"fail","Package":"p"}`)
	if (got != counts{failed: 1}) || !strings.Contains(shown, "want 1, got 2") {
		t.Errorf("%+v %q", got, shown)
	}
}

func TestAPackageThatDoesNotBuildIsOneFailureWithTheCompilersWords(t *testing.T) {
	got, shown := reportOf(t,
		`{"ImportPath":"p","Action":"build-output","Output":"p.go:1: syntax error\n"}`,
		`{"ImportPath":"p","Action":"build-fail"}`,
		`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
		`{"Action":"fail","Package":"p","FailedBuild":"p"}`)
	if (got != counts{failed: 1}) || !strings.Contains(shown, "p.go:1: syntax error") {
		t.Errorf("%+v %q", got, shown)
	}
}

func TestATestThatTheProcessDiedUnderIsAFailureAndNamed(t *testing.T) {
	got, shown := reportOf(t,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"about to hang\n"}`,
		`{"Action":"output","Package":"p","Output":"signal: killed\n"}`,
		`{"Action":"fail","Package":"p"}`)
	if (got != counts{failed: 1}) || !strings.Contains(shown, "about to hang\nTestA did not finish\nsignal: killed") {
		t.Errorf("%+v %q", got, shown)
	}
}

func TestLinesThatAreNoEventsAreShownAsTheyAre(t *testing.T) {
	_, shown := reportOf(t, "go: downloading example.org/x v1.0.0")
	if shown != "go: downloading example.org/x v1.0.0\n" {
		t.Errorf("%q", shown)
	}
}

func TestSuitesAreSplitAtCommas(t *testing.T) {
	got, err := parse([]string{"unit", "-race", "./...", ",", "e2e", "-C", "e2e", "./..."})
	if err != nil || len(got) != 2 || got[1].name != "e2e" || !slices.Equal(got[0].arguments, []string{"-race", "./..."}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range [][]string{nil, {","}, {"unit", ",", ","}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestTheClosingLineHasItsExactForm(t *testing.T) {
	if got := (counts{123, 0, 4}).String(); got != "123 passed, 0 failed, 4 skipped" {
		t.Errorf("%q", got)
	}
}
