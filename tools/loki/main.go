// Command loki says of each line of a log which rules of a file for Loki's ruler it would raise, by Loki's own parser and
// pipeline. A file that Loki would refuse is an error.
//
//	loki RULES < LINES
//
// For each line that a rule counts it prints the rule's name, a tab, and the line.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/grafana/loki/v3/pkg/logql/log"
	"github.com/grafana/loki/v3/pkg/logql/syntax"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
)

// stream is where the lines come from: the labels that Kubernetes' log collectors give a container's lines.
var stream = labels.FromStrings("namespace", "orphand", "container", "orphand", "pod", "orphand-0")

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "use: loki RULES < LINES")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// counter is a rule with the pipeline that a line must pass to be counted.
type counter struct {
	alert  string
	passes log.StreamPipeline
}

func run(file string, lines io.Reader, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	rules, err := load(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		for _, r := range rules {
			if _, _, ok := r.passes.ProcessString(0, scanner.Text(), labels.EmptyLabels()); !ok {
				continue
			}
			if _, err := fmt.Fprintf(out, "%s\t%s\n", r.alert, scanner.Text()); err != nil {
				return err
			}
		}
	}
	return nil
}

// load reads a file of rules as Loki's ruler does: the fields are Prometheus', the expressions LogQL.
func load(text []byte) ([]counter, error) {
	var file rulefmt.RuleGroups
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, err
	}
	var list []counter
	names := map[string]bool{}
	for _, g := range file.Groups {
		if g.Name == "" || names[g.Name] {
			return nil, fmt.Errorf("the group's name %q is empty or there already", g.Name)
		}
		names[g.Name] = true
		for _, r := range g.Rules {
			if r.Alert == "" || r.Record != "" || names[r.Alert] {
				return nil, fmt.Errorf("%s: the alert's name %q is empty or there already", g.Name, r.Alert)
			}
			names[r.Alert] = true
			passes, err := pipeline(r.Expr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Alert, err)
			}
			list = append(list, counter{r.Alert, passes})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no rules")
	}
	return list, nil
}

// pipeline is what lines pass in an expression: it must make a number of one selection of lines, ours among them.
func pipeline(text string) (log.StreamPipeline, error) {
	expr, err := syntax.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	if _, ok := expr.(syntax.SampleExpr); !ok {
		return nil, fmt.Errorf("%s makes no number", text)
	}
	var selectors []syntax.LogSelectorExpr
	expr.Walk(func(e syntax.Expr) bool {
		if r, ok := e.(*syntax.RangeAggregationExpr); ok {
			selectors = append(selectors, r.Left.Left)
		}
		return true
	})
	if len(selectors) != 1 {
		return nil, fmt.Errorf("%d selections of lines in %s", len(selectors), text)
	}
	for _, m := range selectors[0].Matchers() {
		if !m.Matches(stream.Get(m.Name)) {
			return nil, fmt.Errorf("no line of orphand is in a stream with %s", m)
		}
	}
	p, err := selectors[0].Pipeline()
	if err != nil {
		return nil, err
	}
	return p.ForStream(stream), nil
}
