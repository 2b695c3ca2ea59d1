package retention

// Outcome is how an object ended.
type Outcome string

// The outcomes.
const (
	Unclear          Outcome = "" // it ended, and nobody says how
	Succeeded        Outcome = "succeeded"
	Failed           Outcome = "failed"
	DeadlineExceeded Outcome = "deadlineExceeded"
)

// group is the outcome as keepLast counts it: a deadline that passed is a failure, and so is an unclear end.
func (o Outcome) group() Outcome {
	if o == Succeeded {
		return Succeeded
	}
	return Failed
}
