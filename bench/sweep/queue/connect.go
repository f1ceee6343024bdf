package queue

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"workbench/bench/solve"
)

// Address is the address of a NATS server, with credentials.
type Address struct {
	// URL is nats://HOST:PORT or tls://HOST:PORT, several separated by commas, each with USER:PASSWORD@ or TOKEN@
	// if needed.
	URL string
	// Token is the server's token, Credentials a file of a NATS user, CA the PEM file of the authority that signed
	// the server's certificate; each may be empty.
	Token, Credentials, CA string

	server *Server // in this process: no other field
}

// Address returns the address of s for connections from this process.
func (s *Server) Address() Address {
	return Address{Token: s.options.Token, server: s}
}

// String names the server, without its secrets.
func (a Address) String() string {
	if a.server != nil {
		return "the server in this process"
	}
	names := strings.Split(a.URL, ",")
	for i, n := range names {
		if u, err := url.Parse(strings.TrimSpace(n)); err == nil && u.Host != "" {
			u.User = nil
			names[i] = u.String()
		}
	}
	return strings.Join(names, ",")
}

// connectTimeout limits the time to connect to a server.
const connectTimeout = 5 * time.Second

// reconnectWait is the time between two attempts to reconnect.
const reconnectWait = 250 * time.Millisecond

func (a Address) connect() (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("workbench"), nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait),
		// Sending fails at once without a connection: the callers retry.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if a.Token != "" {
		options = append(options, nats.Token(a.Token))
	}
	if a.server != nil {
		nc, err := nats.Connect("", append(options, nats.InProcessServer(a.server.s))...)
		if err != nil {
			return nil, fmt.Errorf("queue: %w", err)
		}
		a.server.own.Add(1)
		return nc, nil
	}
	for _, name := range []string{a.Credentials, a.CA} {
		if _, err := os.Stat(name); name != "" && err != nil {
			return nil, solve.InputError(fmt.Errorf("queue: %w", err))
		}
	}
	if a.Credentials != "" {
		options = append(options, nats.UserCredentials(a.Credentials))
	}
	if a.CA != "" {
		options = append(options, nats.RootCAs(a.CA))
	}
	nc, err := nats.Connect(a.URL, options...)
	if err != nil {
		return nil, solve.InputError(fmt.Errorf("queue: %w", a.explain(err)))
	}
	return nc, nil
}

// explain adds a correction to a connection error.
func (a Address) explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var dns *net.DNSError
	switch {
	case errors.Is(err, nats.ErrAuthorization) && a.Token == "" && a.Credentials == "":
		return fmt.Errorf("%s requires a token: give its file with --token-file (%w)", a, err)
	case errors.Is(err, nats.ErrAuthorization):
		return fmt.Errorf("%s rejects this token or user: give the file that its bench serve was given (%w)", a, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("%s has a certificate of an unknown authority: give the authority's with --tls-ca (%w)", a, err)
	case errors.As(err, &host):
		return fmt.Errorf("%s has a certificate for another name (%w)", a, err)
	case errors.Is(err, nats.ErrSecureConnRequired):
		return fmt.Errorf("%s requires TLS: write tls:// instead of nats:// (%w)", a, err)
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("%s has no TLS: write nats:// instead of tls:// (%w)", a, err)
	case errors.As(err, &dns):
		return fmt.Errorf("there is no machine called %q (%w)", dns.Name, err)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("no NATS server answers at %s: start one with workbench bench serve FOLDER --listen HOST:PORT, or correct the "+
			"address (%w)", a, err)
	}
	return fmt.Errorf("%s: %w", a, err)
}

// jetStream returns the JetStream context of a connection.
func (a Address) jetStream(ctx context.Context, nc *nats.Conn) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(mostUnheard))
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			err = fmt.Errorf("%s has no JetStream: start nats-server with --jetstream, or allow it for this account (%w)", a, err)
		}
		return nil, solve.InputError(fmt.Errorf("queue: %w", err))
	}
	return js, nil
}
