package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"workbench/model/chain"
	"workbench/model/zoo"
)

// Load reads an instance: a chain file, "-" for standard input, or
// zoo:NAME[?key=value&…]. Every error is the user's and wraps ErrInput.
func Load(spec string, stdin io.Reader) (*Instance, error) {
	c, err := loadChain(spec, stdin)
	if err != nil {
		return nil, InputError(err)
	}
	in, err := NewInstance(c)
	if err == nil && spec != "-" {
		in.Source = spec
	}
	return in, err
}

// NewInstance makes an instance of a chain. O(len(c.Layers)).
func NewInstance(c *chain.Chain) (*Instance, error) {
	if err := c.Validate(); err != nil {
		return nil, InputError(err)
	}
	digest, err := c.Digest()
	if err != nil {
		return nil, InputError(err)
	}
	return &Instance{Chain: c, Name: c.Name, SHA256: digest}, nil
}

func loadChain(spec string, stdin io.Reader) (*chain.Chain, error) {
	switch {
	case strings.HasPrefix(spec, zoo.Scheme):
		return zoo.Load(spec)
	case spec == "-":
		return chain.Read(stdin, "standard input")
	}
	f, err := os.Open(spec)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(spec, "./\\") {
			return nil, fmt.Errorf("instance %s: no such file; built-in networks are written %s%s", spec, zoo.Scheme, spec)
		}
		return nil, fmt.Errorf("instance %s cannot be read: %w", spec, err)
	}
	defer f.Close()
	return chain.Read(f, spec)
}

// InputError wraps err as a mistake of the user's, nil for nil. The text is
// err's own.
func InputError(err error) error {
	if err == nil {
		return nil
	}
	return &inputError{err}
}

type inputError struct{ err error }

func (e *inputError) Error() string   { return e.err.Error() }
func (e *inputError) Unwrap() []error { return []error{e.err, ErrInput} }
