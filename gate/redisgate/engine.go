package redisgate

// engine is what a gate needs of a store: the seam at which another one than Redis would be put in. Its answers are to
// keep what PROTOCOL.md says. Messages, as protocol.go names them, go to Gate.message.
type engine interface {
	// call has the store decide one question, at once or not at all. An error means that it may have been decided.
	call(*request) (*reply, error)
}

var _ engine = (*Gate)(nil) // of Redis; see call.go
