// Package signals is the table of everything orphand tells people: the findings and the log events, and the shape in
// which a package hands one to whoever writes it down.
package signals
