package retention

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a policy file.
type Problem struct {
	// Line and Column count from 1; 0 where the file has no such place.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path is where in the document it is, such as rules[2].match.kinds[0]; empty for the document itself.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Warning says that the policy works as it stands, though probably not as it was meant.
	Warning bool `json:"warning,omitempty"`
}

// String is "line:column: path: message".
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", p.Line, p.Column)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are the problems of one file, in the order of its lines.
type Problems []Problem

// Error joins the problems that are more than warnings.
func (ps Problems) Error() string {
	var lines []string
	for _, p := range ps {
		if !p.Warning {
			lines = append(lines, p.String())
		}
	}
	return strings.Join(lines, "\n")
}

// Err is the problems as an error, or nil when there are only warnings.
func (ps Problems) Err() error {
	if slices.ContainsFunc(ps, func(p Problem) bool { return !p.Warning }) {
		return ps
	}
	return nil
}

// Warnings are those that are warnings only.
func (ps Problems) Warnings() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return !p.Warning })
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
