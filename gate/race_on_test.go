//go:build race

package gate

const underRace = true
