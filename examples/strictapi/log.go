package strictapi

import "time"

// StatusAbandoned is the status logged for a call with a client that went away before it was answered.
// No answer carries it. The number is the one that nginx made customary.
const StatusAbandoned = 499

// StatusDropped is the status logged for a call with a connection that the server cut: see [Drop].
// No answer carries it. The number is the one that nginx uses for the same.
const StatusDropped = 444

// An Arrival is the record of one call.
type Arrival struct {
	At     time.Duration // the instant of arrival, since the server was made
	Status int           // what it was answered, or is about to be; see StatusAbandoned and StatusDropped
	Key    string        // the client's key
	Path   string        // the path of the URL
}

const blockSize = 1024

// arrivalLog is written once per entry and never moves one. A slice that grows by copying would hold
// up every call that arrives meanwhile. Status is decided on arrival, and the few calls for which it
// turns out otherwise are listed aside. So a snapshot needs the lock only to learn how far to read.
//
// The server's lock guards it.
type arrivalLog struct {
	blocks    []*[blockSize]Arrival
	size      int
	abandoned []int // numbers of the entries with a client that went away
}

// append adds an entry and returns its number.
func (l *arrivalLog) append(a Arrival) int {
	i := l.size
	if i%blockSize == 0 {
		l.blocks = append(l.blocks, new([blockSize]Arrival))
	}
	l.blocks[i/blockSize][i%blockSize] = a
	l.size++
	return i
}

func (l *arrivalLog) abandon(entry int) { l.abandoned = append(l.abandoned, entry) }

// arrivals copies the entries. Called on a copy of the log, it needs no lock: what it reads is never
// written again.
func (l arrivalLog) arrivals() []Arrival {
	all := make([]Arrival, 0, l.size)
	for left := l.size; left > 0; left = l.size - len(all) {
		all = append(all, l.blocks[len(all)/blockSize][:min(left, blockSize)]...)
	}
	for _, i := range l.abandoned {
		all[i].Status = StatusAbandoned
	}
	return all
}
