package gate

import "fmt"

// Named gives g a name, and returns g itself, so that it can stand around a constructor:
//
//	api := gate.Named("api", gate.NewRate(pace.PerSecond(100), nil))
//
// Logs, metrics and [Explain] call the gate by its name, which need not be unique. Named can be called at any time,
// also while the gate is in use. Given a view, it names the gate that is viewed.
//
// A gate from elsewhere must have a method SetName(string). The keys of a [Keyed] have its name: set that in its
// options. Named panics if g is nil or can't be named.
func Named[G Gate](name string, g G) G {
	if isNil(g) {
		panic(fmt.Sprintf("gate: Named: g must not be nil, got %s", typedNil(g)))
	}
	of, _ := unview(g)
	if n, ok := native(of).(noted); ok {
		n.noted().set(func(k *notes) { k.name = name })
		return g
	}
	n, ok := of.(interface{ SetName(string) })
	if !ok {
		panic(fmt.Sprintf("gate: Named: g must be a gate that can be named, got a %T", of))
	}
	n.SetName(name)
	return g
}

// NameOf returns the name of g: the one that [Named] gave it, or else its kind and a number, such as "rate-3".
// Numbers grow in the order in which gates are made.
//
// A view has the name of the gate that it views. A [Key] has that of its [Keyed] with the key, such as
// "tenants[alice]". A gate from elsewhere tells its name by a method Name() string. Without one, it has that of its
// type, such as "*redis.Limiter".
func NameOf(g Gate) string {
	of, _ := unview(g)
	if n, ok := native(of).(noted); ok {
		return n.noted().named(n.kind().name)
	}
	if n, ok := of.(interface{ Name() string }); ok {
		return n.Name()
	}
	return fmt.Sprintf("%T", of)
}

// noted is a gate that keeps a name, an observer and open passes.
type noted interface {
	Gate
	noted() *counts
	kind() kind
}

func (g *Rate) noted() *counts {
	if g.clk == nil {
		panicOnZero()
	}
	return &g.counts
}
func (g *Window) noted() *counts              { return g.limit().counts }
func (g *Concurrency) noted() *counts         { return g.limit().counts }
func (g *Adaptive) noted() *counts            { return g.limit().counts }
func (g *AdaptiveConcurrency) noted() *counts { return g.limit().counts }
func (g *of) noted() *counts                  { return &g.counts }
func (a *Composite) noted() *counts {
	if a.holds == nil {
		panicOnZero()
	}
	return a.hold.counts
}

func (g *Window) kind() kind              { return g.limit().what }
func (g *Concurrency) kind() kind         { return g.limit().what }
func (g *Adaptive) kind() kind            { return g.limit().what }
func (g *AdaptiveConcurrency) kind() kind { return g.limit().what }
func (g *of) kind() kind                  { return kind{name: "of"} }
func (a *Composite) kind() kind           { return a.hold.what }

// Name returns the name in the options, or else "keyed" and a number, such as "keyed-3".
func (k *Keyed[K]) Name() string {
	if k.make == nil {
		panicOnZero()
	}
	if k.name != "" {
		return k.name
	}
	return numbered("keyed", k.number)
}

// Name returns the name of the Keyed with the key, such as "tenants[alice]".
func (v Key[K]) Name() string { return fmt.Sprintf("%s[%v]", v.keyed().Name(), v.key) }

// numbered returns the name of a gate that was given none.
func numbered(kind string, number uint64) string { return fmt.Sprintf("%s-%d", kind, number) }

// Name makes a limit a queue.Namer.
func (s *single) Name() string { return s.named(s.what.name) }

// namer is a Composite as a queue.Namer.
type namer Composite

func (a *namer) Name() string { return NameOf((*Composite)(a)) }
