package retention

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/orphand/orphand/pkg/facts"
)

// costLimit bounds the evaluation of one expression over one object.
const costLimit = 1_000_000

// expression is a compiled CEL expression over an object.
type expression struct {
	program cel.Program
}

// compiler compiles expressions over the variable 'object'.
type compiler struct{ env *cel.Env }

func newCompiler() (compiler, error) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.OptionalTypes())
	return compiler{env}, err
}

// compile refuses what is no CEL, and what can only be of another type than those wanted.
func (c compiler) compile(text string, wanted ...*celType) (*expression, error) {
	ast, issues := c.env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, errors.New(firstLine(err.Error()))
	}
	fits := ast.OutputType() == cel.DynType || ast.OutputType().IsExactType(cel.DynType)
	var names []string
	for _, w := range wanted {
		fits = fits || ast.OutputType().IsExactType(w)
		names = append(names, w.String())
	}
	if !fits {
		return nil, fmt.Errorf("gives %s, not %s", ast.OutputType(), strings.Join(names, " or "))
	}
	program, err := c.env.Program(ast, cel.CostLimit(costLimit))
	if err != nil {
		return nil, err
	}
	return &expression{program}, nil
}

// value evaluates over an object; nil when a field that it names is not there.
func (e *expression) value(object map[string]any) (ref.Val, error) {
	v, _, err := e.program.Eval(map[string]any{"object": object})
	if err != nil {
		if strings.HasPrefix(err.Error(), "no such key") {
			return nil, nil
		}
		return nil, err
	}
	if types.IsUnknownOrError(v) {
		return nil, fmt.Errorf("%v", v)
	}
	return v, nil
}

// truth is false when a field that the expression names is not there.
func (e *expression) truth(object map[string]any) (bool, error) {
	v, err := e.value(object)
	if err != nil || v == nil {
		return false, err
	}
	b, ok := v.Value().(bool)
	if !ok {
		return false, fmt.Errorf("gives %s, not bool", v.Type())
	}
	return b, nil
}

func firstLine(text string) string {
	text = strings.TrimPrefix(text, "ERROR: <input>:")
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// custom is a kind of which the policy says itself how it is read.
type custom struct {
	finished, outcome, finishTime, suspended, ttl *expression
}

func (c custom) read(o fields) (life, error) {
	l, err := o.ended(standardEnds())
	if err != nil {
		return l, err
	}
	l.suspended = o.truth("spec", "suspend")
	l.managedBy = o.text("spec", "managedBy")
	l.ttl = specTTL(o)
	if c.finished != nil {
		if l.finished, err = c.finished.truth(o); err != nil {
			return life{}, fmt.Errorf("finished: %w", err)
		}
	}
	if c.suspended != nil {
		if l.suspended, err = c.suspended.truth(o); err != nil {
			return life{}, fmt.Errorf("suspended: %w", err)
		}
	}
	if c.outcome != nil {
		v, err := c.outcome.value(o)
		if err != nil {
			return life{}, fmt.Errorf("outcome: %w", err)
		}
		l.outcome = Unclear
		if v != nil {
			switch word := Outcome(fmt.Sprint(v.Value())); word {
			case Succeeded, Failed, DeadlineExceeded:
				l.outcome = word
			}
		}
	}
	if c.finishTime != nil {
		v, err := c.finishTime.value(o)
		if err != nil {
			return life{}, fmt.Errorf("finishTime: %w", err)
		}
		l.at = 0
		if v != nil {
			switch t := v.Value().(type) {
			case time.Time:
				l.at = parseInstant(t.Format(time.RFC3339Nano))
			case string:
				l.at = parseInstant(t)
			}
		}
	}
	if c.ttl != nil {
		v, err := c.ttl.value(o)
		if err != nil {
			return life{}, fmt.Errorf("ttl: %w", err)
		}
		l.ttl = nil
		if v != nil {
			if seconds, ok := v.Value().(int64); ok {
				l.ttl = &seconds
			}
		}
	}
	if !l.finished {
		l.at = facts.Instant(0)
	}
	return l, nil
}

type celType = cel.Type

func boolType() []*celType   { return []*celType{cel.BoolType} }
func textType() []*celType   { return []*celType{cel.StringType} }
func timeType() []*celType   { return []*celType{cel.TimestampType, cel.StringType} }
func numberType() []*celType { return []*celType{cel.IntType} }
