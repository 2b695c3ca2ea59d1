// Package house holds the tests of the house rules that no linter knows: who may import what, and how packages are named.
package house
