package schedule

import "math/bits"

// wide is an unsigned 128-bit integer. Additions and products saturate, subtractions stop at zero:
// a schedule so far out is never reached, and must not wrap around into the present.
type wide struct{ hi, lo uint64 }

var maxWide = wide{^uint64(0), ^uint64(0)}

func product(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	return wide{hi, lo}
}

func (a wide) less(b wide) bool {
	return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo
}

func (a wide) plus(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, carry := bits.Add64(a.hi, b.hi, carry)
	if carry != 0 {
		return maxWide
	}
	return wide{hi, lo}
}

func (a wide) minus(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, borrow := bits.Sub64(a.hi, b.hi, borrow)
	if borrow != 0 {
		return wide{}
	}
	return wide{hi, lo}
}

// times returns a·m.
func (a wide) times(m uint64) wide {
	over, hi := bits.Mul64(a.hi, m)
	carry, lo := bits.Mul64(a.lo, m)
	hi, c := bits.Add64(hi, carry, 0)
	if over != 0 || c != 0 {
		return maxWide
	}
	return wide{hi, lo}
}

// div returns the quotient and the remainder of a by d, which is not zero.
func (a wide) div(d uint64) (wide, uint64) {
	hi, r := a.hi/d, a.hi%d
	lo, r := bits.Div64(r, a.lo, d)
	return wide{hi, lo}, r
}

// ceil returns a/d rounded up, as an int64 that stops at the largest one.
func (a wide) ceil(d uint64) int64 {
	q, r := a, uint64(0)
	if d != 1 {
		q, r = a.div(d)
	}
	if q.hi != 0 || q.lo >= never {
		return never
	}
	if r != 0 {
		q.lo++
	}
	return int64(q.lo)
}
