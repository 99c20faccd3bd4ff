package adapt

import "math"

// Both a [State] and a [Slots] ask whether refusals have become more frequent than noise. The answer is a cumulative
// sum (Page, Continuous Inspection Schemes, 1954) of the logarithms of likelihood ratios. That is a sequential
// probability ratio test (Wald, Sequential Tests of Statistical Hypotheses, 1945) that starts again whenever it has
// found nothing. What they take for noise differs: see noise.go and [Slots.noise].

// excess is the test. Its zero value has found nothing yet.
type excess struct{ sum float64 } // the logarithm of the odds that refusals have become more frequent

// well takes note of an answer that was no refusal, where p is noise and p+by is more.
func (e *excess) well(p, by float64) {
	if e.sum > 0 {
		e.sum = max(0, e.sum+math.Log((1-p-by)/(1-p)))
	}
}

// refused takes note of a refusal.
func (e *excess) refused(p, by float64) { e.sum += math.Log((p + by) / p) }

// memory is how many answers a tally remembers.
const memory = 512

// tally counts answers. It forgets slowly.
type tally struct{ all, refused float32 }

func (t *tally) add(refused bool) {
	t.all++
	if refused {
		t.refused++
	}
	if t.all >= memory {
		t.all, t.refused = t.all/2, t.refused/2
	}
}

func (t *tally) join(o tally) { t.all, t.refused = t.all+o.all, t.refused+o.refused }

// well is how many answers were no refusals.
func (t tally) well() float64 { return float64(t.all - t.refused) }

// share is the share that was refused. It is 0 if there is no answer.
func (t tally) share() float64 { return float64(t.refused) / float64(max(t.all, 1)) }

// standardError is that of a share p among the answers.
func (t tally) standardError(p float64) float64 { return math.Sqrt(p * (1 - p) / float64(t.all)) }

// shrunk returns a tally with the same share that weighs no more than so many answers.
func (t tally) shrunk(most float32) tally {
	if t.all <= most {
		return t
	}
	return tally{most, t.refused * most / t.all}
}
