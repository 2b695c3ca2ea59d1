// Package nodeproof holds the one rule that orphand exists for: when is it certain that no process of a pod can be
// running? It judges from facts alone, with the time as an argument, and keeps the small memory that the rule needs:
// what became of each node, and which machines each pod may have run on.
package nodeproof
