package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestLinksInTheDocumentationLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, root+"/README.md", root+"/CONTRIBUTING.md")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), match[1])); err != nil {
				t.Errorf("%s: %s leads nowhere", strings.TrimPrefix(page, root+"/"), match[1])
			}
		}
	}
}

func TestTheFilesThatEveryoneLooksForAreThere(t *testing.T) {
	for _, file := range []string{"README.md", "CONTRIBUTING.md", "LICENSE", "Makefile", ".ci/run", "docs/architecture.md"} {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Errorf("%s is missing", file)
		}
	}
}
