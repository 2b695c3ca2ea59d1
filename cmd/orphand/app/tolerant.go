package app

import (
	"fmt"

	"github.com/spf13/pflag"
)

// tolerant lets parsing go on past a value that cannot be read, so that all problems are reported at once.
type tolerant struct {
	pflag.Value
	name     string
	problems *[]string
}

// Set keeps the former value and notes the problem when text cannot be read.
func (t tolerant) Set(text string) error {
	former := t.Value.String()
	if err := t.Value.Set(text); err != nil {
		_ = t.Value.Set(former) // Some kinds of flags have stored a zero by now.
		*t.problems = append(*t.problems, fmt.Sprintf("--%s %q: %s", t.name, text, expected(t.Type())))
	}
	return nil
}

// collectProblems makes every flag of the set note unreadable values in problems instead of stopping at the first.
func collectProblems(flags *pflag.FlagSet, problems *[]string) {
	flags.VisitAll(func(f *pflag.Flag) {
		f.Value = tolerant{Value: f.Value, name: f.Name, problems: problems}
	})
}

func expected(flagType string) string {
	switch flagType {
	case "duration":
		return "use a duration such as 40s or 5m"
	case "int":
		return "use a whole number"
	case "float32", "float64":
		return "use a number"
	case "bool":
		return "use true or false"
	default:
		return "not a " + flagType
	}
}
