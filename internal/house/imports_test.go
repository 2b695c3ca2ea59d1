package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/orphand/orphand"

// mayImport is the direction of dependencies: what each package may import of ours. A package that is missing here fails
// the test, so that a new one gets its place on purpose.
func mayImport() map[string][]string {
	return map[string][]string{
		// Leaves.
		"pkg/facts":   {},
		"pkg/signals": {},
		"pkg/queue":   {},
		"pkg/metrics": {},
		"pkg/access":  {},
		// What is seen, and what follows from it.
		"pkg/informers": {"pkg/facts", "pkg/signals"},
		"pkg/nodeproof": {"pkg/facts"},
		"pkg/retention": {"pkg/facts"},
		"pkg/ledger":    {"pkg/facts", "pkg/nodeproof", "pkg/settle", "pkg/signals", "api/v1alpha1"},
		"pkg/reap":      {"pkg/facts", "pkg/nodeproof", "pkg/signals"},
		"pkg/settle":    {"pkg/facts", "pkg/informers", "pkg/nodeproof", "pkg/retention", "pkg/signals"},
		"pkg/sweep":     {"pkg/facts", "pkg/informers", "pkg/reap", "pkg/retention", "pkg/signals"},
		// Everything comes together in the command.
		"cmd/orphand/app": {"pkg/access", "pkg/facts", "pkg/informers", "pkg/ledger", "pkg/metrics", "pkg/nodeproof", "pkg/queue", "pkg/reap", "pkg/retention", "pkg/settle", "pkg/signals", "pkg/sweep", "api/v1alpha1", "internal/replay", "internal/stage"},
		"cmd/orphand":     {"cmd/orphand/app"},
		// Not part of the program.
		"api/v1alpha1":   {},
		"internal/house": {},
		// The alerts are made from the findings; the program does not hold them.
		"internal/alerts": {"pkg/signals"},
		"internal/stage":  {"pkg/facts", "pkg/informers", "pkg/ledger", "pkg/reap", "pkg/retention", "pkg/settle", "pkg/signals", "pkg/sweep", "api/v1alpha1"},
		// The replayer is a command of its own, on the stage in the cluster's place.
		"internal/replay":          {"pkg/facts", "pkg/informers", "pkg/metrics", "pkg/nodeproof", "pkg/reap", "pkg/retention", "pkg/settle", "pkg/signals", "pkg/sweep", "internal/stage"},
		"internal/sim":             {"pkg/facts", "pkg/informers", "pkg/ledger", "pkg/nodeproof", "pkg/reap", "pkg/settle", "pkg/signals", "internal/stage"},
		"internal/sim/cmd/sim":     {"pkg/nodeproof", "internal/sim"},
		"internal/sim/cmd/mutants": {"internal/sim"},
		"internal/tally":           {},
	}
}

// onlyUnder names the libraries that may be imported directly in one place only.
func onlyUnder() map[string]string {
	return map[string]string{
		"go.uber.org/zap":                       "cmd/",
		"github.com/go-logr/zapr":               "cmd/",
		"github.com/spf13/cobra":                "cmd/",
		"k8s.io/cli-runtime":                    "cmd/",
		"github.com/prometheus/client_golang":   "pkg/metrics",
		"github.com/prometheus/client_model":    "pkg/metrics",
		"k8s.io/client-go/tools/leaderelection": "cmd/",
	}
}

// never lists what must not be part of the build at all.
func never() []string {
	return []string{"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime", "k8s.io/apiserver", "k8s.io/component-base"}
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath, Name, Doc string
	Imports               []string
}

// list asks go list about the project's packages, with everything that they are built from when deps is set.
func list(t *testing.T, deps bool) []listed {
	t.Helper()
	arguments := []string{"list", "-json=ImportPath,Name,Doc,Imports"}
	if deps {
		arguments = append(arguments, "-deps")
	}
	command := exec.Command("go", append(arguments, module+"/...")...)
	command.Env = append(os.Environ(), "GOWORK=off")
	var problem bytes.Buffer
	command.Stderr = &problem
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, problem.String())
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// under says whether path is root or lies below it.
func under(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

func TestPackagesImportOnlyWhatTheirLayerAllows(t *testing.T) {
	allowed := mayImport()
	for _, p := range list(t, false) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		mine, known := allowed[name]
		if !known {
			t.Errorf("%s has no place in the direction of dependencies: give it one in mayImport", name)
			continue
		}
		for _, i := range p.Imports {
			if ours, ok := strings.CutPrefix(i, module+"/"); ok && !slices.Contains(mine, ours) {
				t.Errorf("%s imports %s", name, ours)
			}
			for library, place := range onlyUnder() {
				if under(i, library) && !under(name, place) {
					t.Errorf("%s imports %s, which belongs to %s only", name, i, place)
				}
			}
		}
	}
}

func TestTheBuildHoldsNoWholeKubernetesAndNoFramework(t *testing.T) {
	for _, p := range list(t, true) {
		for _, unwanted := range never() {
			if under(p.ImportPath, unwanted) {
				t.Errorf("the build holds %s", p.ImportPath)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsInOneSentenceFirst(t *testing.T) {
	for _, p := range list(t, false) {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + p.ImportPath[strings.LastIndexByte(p.ImportPath, '/')+1:] + " "
		}
		if !strings.HasPrefix(p.Doc, want) || !strings.HasSuffix(p.Doc, ".") {
			t.Errorf("%s: the package comment is not a sentence that begins with %q: %q", p.ImportPath, want, p.Doc)
		}
	}
}

func TestNoPackageIsADrawer(t *testing.T) {
	for _, p := range list(t, false) {
		for part := range strings.SplitSeq(p.ImportPath, "/") {
			switch part {
			case "util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib":
				t.Errorf("%s: name it after what is in it", p.ImportPath)
			}
		}
	}
}
