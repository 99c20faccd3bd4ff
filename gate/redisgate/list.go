package redisgate

// list is a doubly linked list. What is in it has a node for it, so that it is taken out in constant time.
type list[T any] struct {
	first, last *node[T]
	count       int
}

type node[T any] struct {
	next, prev *node[T]
	of         *T
}

// value returns what the node is of, or nil.
func (n *node[T]) value() *T {
	if n == nil {
		return nil
	}
	return n.of
}

// insert adds a node before another one, or at the end if that is nil.
func (l *list[T]) insert(n, before *node[T]) {
	n.next, n.prev = before, l.last
	if before != nil {
		n.prev, before.prev = before.prev, n
	} else {
		l.last = n
	}
	if n.prev != nil {
		n.prev.next = n
	} else {
		l.first = n
	}
	l.count++
}

func (l *list[T]) remove(n *node[T]) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.last = n.prev
	}
	n.next, n.prev = nil, nil
	l.count--
}
