package redisgate

import (
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// parts of the keys of a gate, in the order of the script's.
var keyNames = []string{"gate", "slots", "crowd", "turns", "units", "leases"}

// keysOf returns the keys in Redis of a gate. All but the last are its own. The last one is shared by all gates on a
// server: it says since when the server has lost no key. In a cluster, there is one for each hash slot with gates.
func keysOf(client redis.UniversalClient, key string) (keys []string) {
	for _, name := range keyNames {
		keys = append(keys, key+":"+name)
	}
	if _, ok := client.(*redis.ClusterClient); ok {
		return append(keys, lifeBeside(key))
	}
	return append(keys, "{escapement}:life")
}

// lifeBeside returns the shared key in the hash slot of that key.
func lifeBeside(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return "{" + neighbours.of(hashSlot(tag)) + "}:life"
}

// hashSlots is the number of hash slots of a cluster.
const hashSlots = 16384

// hashSlot returns the hash slot of a tag: CRC-16/XMODEM, as Redis Cluster has it.
func hashSlot(tag string) int {
	crc := uint16(0)
	for _, c := range []byte(tag) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % hashSlots
}

// neighbours has a tag for hash slots.
var neighbours = tags{bySlot: map[int]string{}}

// tags guards the tags that were found.
type tags struct {
	mu     sync.Mutex
	bySlot map[int]string
}

// of returns the first tag of that hash slot, by number. All processes find the same one.
func (t *tags) of(slot int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tag, ok := t.bySlot[slot]; ok {
		return tag
	}
	for n := 0; ; n++ {
		if tag := "escapement" + strconv.Itoa(n); hashSlot(tag) == slot {
			t.bySlot[slot] = tag
			return tag
		}
	}
}
