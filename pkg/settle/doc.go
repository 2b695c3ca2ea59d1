// Package settle follows every job from its TrainJob to the last process: it gathers what was seen of a job, asks
// nodeproof about each pod, decides the job's state, and says what changed.
package settle
