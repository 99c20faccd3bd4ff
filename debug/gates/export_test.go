package gates

// Update does what a tick does while a viewer looks, keys included. It returns the size of the event.
func (p *Page) Update() int {
	p.looking.Lock()
	defer p.looking.Unlock()
	for _, k := range p.things().keyeds {
		k.next = 0
	}
	p.lookLocked(p.clk.Now(), true, true)
	last := p.tail
	p.publishLocked("tick")
	return len(last.data)
}
