package retention

import (
	"errors"
	"strings"
)

// globs is a list of patterns for namespaces.
type globs struct {
	include, exclude []string
}

var errGlob = errors.New("use a namespace with * and ? as wildcards: lower-case letters, digits and - otherwise, a leading ! to exclude")

func parseGlob(text string) (pattern string, excludes bool, err error) {
	pattern, excludes = strings.CutPrefix(text, "!")
	if pattern == "" || strings.Trim(pattern, "abcdefghijklmnopqrstuvwxyz0123456789-*?") != "" || len(pattern) > 63 {
		return "", false, errGlob
	}
	return pattern, excludes, nil
}

func (g globs) match(name string) bool {
	for _, p := range g.exclude {
		if glob(p, name) {
			return false
		}
	}
	for _, p := range g.include {
		if glob(p, name) {
			return true
		}
	}
	return len(g.include) == 0
}

// glob matches a whole name in time linear in both, but for the last * tried.
func glob(pattern, name string) bool {
	star, mark := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// covers says that whatever the other list matches, this one matches as well. It may fail to see it.
func (g globs) covers(other globs) bool {
	if len(g.exclude) > 0 {
		return false
	}
	if len(g.include) == 0 {
		return true
	}
	if len(other.include) == 0 {
		return false
	}
	for _, o := range other.include {
		covered := false
		for _, p := range g.include {
			// A wildcard of the other one is a letter like any other here, which only this one's * can take.
			if p == o || !strings.Contains(p, "?") && glob(p, o) {
				covered = true
			}
		}
		if !covered {
			return false
		}
	}
	return true
}
