package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	fence = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```")
	span  = regexp.MustCompile("`([^`\n]+)`")
	// ends is where a shell ends a command, and a comment begins.
	ends   = regexp.MustCompile(`\s+(#|\||>|&&|;)|[;|]\s`)
	target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// documented are the texts that people read, by file.
func documented(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..": // the root itself
			return fs.SkipDir
		case !strings.HasSuffix(path, ".md"):
			return nil
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// commandsIn are the lines of a text that begin with the program's name, in blocks and in code spans.
func commandsIn(text, program string) []string {
	var lines []string
	rest := fence.ReplaceAllStringFunc(text, func(block string) string {
		lines = append(lines, strings.Split(strings.ReplaceAll(block, "\\\n", " "), "\n")...)
		return ""
	})
	for _, m := range span.FindAllStringSubmatch(rest, -1) {
		lines = append(lines, m[1])
	}
	var found []string
	for _, line := range lines {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "kubectl ")
		if at := ends.FindStringIndex(line); at != nil {
			line = line[:at[0]]
		}
		if strings.HasPrefix(line, program+" ") {
			found = append(found, line)
		}
	}
	return found
}

// words are those of a command, as a shell would take them apart.
func words(line string) []string {
	var list []string
	word, quote, open := "", rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case quote == 0 && c == ' ':
			if word != "" || open {
				list = append(list, word)
			}
			word, open = "", false
		default:
			word += string(c)
		}
	}
	if word != "" || open {
		list = append(list, word)
	}
	return list
}

// understood says what is wrong with a command line before anything is done: its subcommand, its flags, the number of its
// arguments.
func understood(line string) error {
	root := NewCommand(Streams{Out: &strings.Builder{}, Err: &strings.Builder{}})
	command, args, err := root.Find(words(line)[1:])
	if err != nil {
		return err
	}
	if err := command.ParseFlags(args); err != nil {
		return err
	}
	given := command.Flags().Args()
	if len(given) == 0 && command.Flags().NFlag() == 0 {
		return nil // its name alone is how a text speaks of it
	}
	return command.ValidateArgs(given)
}

// A command that a page tells people to type, and that the program does not understand, costs them the minute in which they
// have none.
func TestEveryCommandOnThePagesIsUnderstood(t *testing.T) {
	seen := 0
	for path, text := range documented(t) {
		for _, line := range commandsIn(text, "orphand") {
			seen++
			if err := understood(line); err != nil {
				t.Errorf("%s: %s: %v", path, line, err)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands were found", seen)
	}
	for _, wrong := range []string{"orphand fnd x", "orphand find x --wde", "orphand replay --output table", "orphand wait a b"} {
		if understood(wrong) == nil {
			t.Errorf("%s is understood", wrong)
		}
	}
}

// So is every example that a command shows of itself.
func TestEveryExampleOfACommandIsUnderstood(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, line := range commandsIn("```\n"+c.Example+"\n```", "orphand") {
			if err := understood(line); err != nil {
				t.Errorf("%s --help: %s: %v", c.CommandPath(), line, err)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, line := range commandsIn(f.Usage, "orphand") {
				if err := understood(line); err != nil {
					t.Errorf("%s --%s: %s: %v", c.CommandPath(), f.Name, line, err)
				}
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(NewCommand(Streams{Out: &strings.Builder{}, Err: &strings.Builder{}}))
}

func TestEveryMakeTargetOnThePagesIsThere(t *testing.T) {
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	for path, text := range documented(t) {
		for _, line := range commandsIn(text, "make") {
			if name := words(line)[1]; !targets[name] {
				t.Errorf("%s: %s: there is no such target", path, line)
			}
		}
	}
}
