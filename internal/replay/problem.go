package replay

import "fmt"

// Place is where something stands: a file, the number of a document in it, and a line, both counted from 1.
type Place struct {
	File     string
	Document int
	Line     int
}

// String is "file:line: document n".
func (p Place) String() string { return fmt.Sprintf("%s:%d: document %d", p.File, p.Line, p.Document) }

// Malformed is a file that is no history: where, what is wrong, and what was expected.
type Malformed struct {
	Place
	Message string
}

// Error names the place first, as compilers do.
func (m *Malformed) Error() string { return m.Place.String() + ": " + m.Message }
