package main

import (
	"math/rand/v2"
	"net"
	"time"
)

// distance is a proxy on a loopback port that makes the server seem far away. Each way takes half of a round
// trip.
type distance struct {
	target string
	rtt    time.Duration
	jitter float64 // the part of it that is random
}

// listen starts the proxy, which goes on until the process ends.
func (d distance) listen() (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				far, err := net.Dial("tcp", d.target)
				if err != nil {
					near.Close()
					return
				}
				go d.carry(near, far)
				d.carry(far, near)
			}()
		}
	}()
	return l.Addr().String(), nil
}

type parcel struct {
	bytes []byte
	due   time.Time
}

// carry passes on what comes from one end, each piece half a round trip later and all in order. It closes both
// ends when one is closed.
func (d distance) carry(from, to net.Conn) {
	way := make(chan parcel, 1024)
	go func() {
		defer to.Close()
		defer from.Close()
		for p := range way {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				for range way {
				}
				return
			}
		}
	}()
	defer close(way)
	var last time.Time
	for {
		b := make([]byte, 16<<10)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		delay := float64(d.rtt) / 2 * (1 + d.jitter*(rand.Float64()-0.5))
		due := time.Now().Add(time.Duration(delay))
		if due.Before(last) {
			due = last
		}
		last = due
		way <- parcel{b[:n], due}
	}
}
