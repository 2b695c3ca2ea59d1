package nodeproof

import (
	"strings"
	"testing"
)

func TestEveryVerdictHasASentenceOfItsOwn(t *testing.T) {
	seen := map[string]Pair{}
	for _, p := range Pairs() {
		s := p.Sentence("llm-7-node-0-1", "gpu-12")
		if !strings.HasSuffix(s, ".") || !strings.Contains(s, "llm-7-node-0-1") {
			t.Errorf("%s/%s: %q is no sentence about the pod", p.Verdict, p.Reason, s)
		}
		if strings.Contains(s, "POD") || strings.Contains(s, "NODE") {
			t.Errorf("%s/%s: %q", p.Verdict, p.Reason, s)
		}
		if other, twice := seen[s]; twice {
			t.Errorf("%v and %v have the same sentence %q", p, other, s)
		}
		seen[s] = p
		if gone := strings.Contains(s, "is gone:"); gone != (p.Verdict == Gone) {
			t.Errorf("%s/%s: %q says something else", p.Verdict, p.Reason, s)
		}
	}
}
