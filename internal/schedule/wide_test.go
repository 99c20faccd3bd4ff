package schedule

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func (a wide) big() *big.Int {
	b := new(big.Int).SetUint64(a.hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(a.lo))
}

// word draws numbers at the edges as well as in between.
func word() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 9),
		rapid.Uint64Range(math.MaxUint64-9, math.MaxUint64), rapid.Uint64Range(math.MaxInt64-9, math.MaxInt64+9))
}

func TestWideAgainstBig(t *testing.T) {
	top := new(big.Int).Lsh(big.NewInt(1), 128)
	top.Sub(top, big.NewInt(1))
	rapid.Check(t, func(t *rapid.T) {
		a, b := wide{word().Draw(t, "a.hi"), word().Draw(t, "a.lo")}, wide{word().Draw(t, "b.hi"), word().Draw(t, "b.lo")}
		m := word().Draw(t, "m")
		same := func(what string, got wide, want *big.Int) {
			if want.Sign() < 0 {
				want = new(big.Int)
			} else if want.Cmp(top) > 0 {
				want = top
			}
			if got.big().Cmp(want) != 0 {
				t.Fatalf("%s: %d, want %d", what, got.big(), want)
			}
		}
		other := new(big.Int).SetUint64(m)
		same("product", product(a.lo, m), new(big.Int).Mul(new(big.Int).SetUint64(a.lo), other))
		same("plus", a.plus(b), new(big.Int).Add(a.big(), b.big()))
		same("minus", a.minus(b), new(big.Int).Sub(a.big(), b.big()))
		same("times", a.times(m), new(big.Int).Mul(a.big(), other))
		if a.less(b) != (a.big().Cmp(b.big()) < 0) || a.less(a) {
			t.Fatalf("less: %v", a.less(b))
		}
		if m == 0 {
			return
		}
		q, r := a.div(m)
		wantQ, wantR := new(big.Int).QuoRem(a.big(), other, new(big.Int))
		same("quotient", q, wantQ)
		if r != wantR.Uint64() {
			t.Fatalf("remainder: %d, want %d", r, wantR)
		}
		if wantR.Sign() != 0 {
			wantQ.Add(wantQ, big.NewInt(1))
		}
		if !wantQ.IsInt64() {
			wantQ.SetInt64(math.MaxInt64)
		}
		if got := a.ceil(m); got != wantQ.Int64() {
			t.Fatalf("ceil: %d, want %d", got, wantQ)
		}
	})
}
