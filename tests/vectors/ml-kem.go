// Makes ml-kem.json with Go's ML-KEM-768 (Go 1.26 or newer): go run tests/vectors/ml-kem.go
package main

import (
	"bytes"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"encoding/hex"
	"encoding/json"
	"os"
)

// Bytes that count up, as in bytes.ts.
func run(first, length int) []byte {
	made := make([]byte, length)
	for at := range made {
		made[at] = byte(first + at)
	}
	return made
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

type vector struct {
	About      string `json:"about"`
	Seed       string `json:"seed"`
	PublicKey  string `json:"public_key"`
	Message    string `json:"message"`
	Ciphertext string `json:"ciphertext"`
	Secret     string `json:"secret"`
}

type refused struct {
	About string `json:"about"`
	What  string `json:"what"`
	Bytes string `json:"bytes"`
}

type file struct {
	Valid   []vector  `json:"valid"`
	Refused []refused `json:"refused"`
}

func main() {
	var made file
	add := func(about string, seed, message []byte, change func([]byte)) {
		key := must(mlkem.NewDecapsulationKey768(seed))
		_, ciphertext, err := mlkemtest.Encapsulate768(key.EncapsulationKey(), message)
		if err != nil {
			panic(err)
		}
		change(ciphertext)
		secret := must(key.Decapsulate(ciphertext))
		hexed := hex.EncodeToString
		made.Valid = append(made.Valid, vector{about, hexed(seed), hexed(key.EncapsulationKey().Bytes()), hexed(message), hexed(ciphertext), hexed(secret)})
	}
	add("a key", run(0, 64), run(0x80, 32), func([]byte) {})
	add("another key", run(0x55, 64), run(0xc0, 32), func([]byte) {})
	add("a ciphertext with a changed bit gives another secret, and no error", run(0, 64), run(0x80, 32), func(bytes []byte) { bytes[5] ^= 1 })
	add("so does one whose end is changed", run(0, 64), run(0x80, 32), func(bytes []byte) { bytes[len(bytes)-1] ^= 0x80 })

	key := must(mlkem.NewDecapsulationKey768(run(0, 64)))
	ek := key.EncapsulationKey().Bytes()
	refuse := func(about, what string, of []byte) {
		if what == "public_key" {
			if _, err := mlkem.NewEncapsulationKey768(of); err == nil {
				panic(about)
			}
		} else if _, err := key.Decapsulate(of); err == nil {
			panic(about)
		}
		made.Refused = append(made.Refused, refused{about, what, hex.EncodeToString(of)})
	}
	// The first coefficient, of 12 bits, is q = 3329: one too many.
	large := bytes.Clone(ek)
	large[0], large[1] = 0x01, large[1]&0xf0|0x0d
	refuse("a coefficient that is not reduced", "public_key", large)
	refuse("a key of one byte less", "public_key", ek[:len(ek)-1])
	refuse("a key of one byte more", "public_key", append(bytes.Clone(ek), 0))
	zeros := make([]byte, mlkem.CiphertextSize768)
	refuse("a ciphertext of one byte less", "ciphertext", zeros[1:])
	refuse("a ciphertext of one byte more", "ciphertext", append(zeros, 0))
	refuse("no ciphertext", "ciphertext", nil)

	text := must(json.MarshalIndent(made, "", "  "))
	if err := os.WriteFile("tests/vectors/ml-kem.json", append(text, '\n'), 0o644); err != nil {
		panic(err)
	}
}
