package settle

import (
	"strings"
	"testing"
)

func TestEveryStateHasASentenceOfItsOwn(t *testing.T) {
	seen := map[string]State{}
	for _, s := range States() {
		text := s.Sentence("team-a/llm-7")
		if !strings.HasSuffix(text, ".") || !strings.Contains(text, "team-a/llm-7") {
			t.Errorf("%s: %q is no sentence about the job", s, text)
		}
		if other, twice := seen[text]; twice {
			t.Errorf("%s and %s have the same sentence %q", s, other, text)
		}
		seen[text] = s
		if safe := strings.Contains(text, "safe to run it again"); safe != s.Over() {
			t.Errorf("%s: %q says something else of running it again", s, text)
		}
	}
}
