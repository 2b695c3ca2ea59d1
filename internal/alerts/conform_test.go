package alerts

import (
	"strings"
	"testing"
)

func TestTheSchemaTellsALineThatIsAsDocumentedFromOneThatIsNot(t *testing.T) {
	good := `{"level":"error","ts":"2026-01-01T00:00:00Z","msg":"m","event":"Overlap","finding":"Overlap","phase":"started","job":"a/b","uid":"u","pod":"p","cause":"c"}`
	if err := Conforms([]byte(good)); err != nil {
		t.Error(err)
	}
	for what, line := range map[string]string{
		"an unknown event":                strings.ReplaceAll(good, "Overlap", "Overlaps"),
		"a finding without its phase":     strings.Replace(good, `"phase":"started",`, "", 1),
		"a job without a namespace":       strings.Replace(good, "a/b", "b", 1),
		"no JSON":                         "panic: at the disco",
		"no message":                      strings.Replace(good, `"msg":"m",`, "", 1),
		"a field that is not the event's": `{"level":"info","ts":"t","msg":"m","event":"Stopped","pod":"p"}`,
	} {
		if Conforms([]byte(line)) == nil {
			t.Errorf("%s passed: %s", what, line)
		}
	}
}
