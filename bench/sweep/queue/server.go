package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"workbench/bench/solve"
)

// ServerOptions configure where a server keeps its tasks and who may use it.
type ServerOptions struct {
	// Dir is the folder of the tasks, created if missing. Only one server may use it.
	Dir string
	// Listen is HOST:PORT, port 0 for any; empty: no socket, only this process.
	Listen string
	// Token is required of every client; empty: none. It is required where other machines can connect.
	Token string
	// Certificate and Key are the PEM files of TLS; empty: no TLS.
	Certificate, Key string
	// Log receives the server's own errors; nil: discarded.
	Log *slog.Logger
}

// Server is a NATS server inside this process.
type Server struct {
	s       *server.Server
	options ServerOptions
	own     atomic.Int32 // connections from this process
}

// readyTimeout limits the start of a server: milliseconds, unless it reads a large folder from a slow disk.
const readyTimeout = 10 * time.Second

// maxMessage is the largest message of servers started here. Clusters usually have 1 MiB: larger plans are sent as
// objects.
const maxMessage = 8 << 20

// Start starts a server. Without Listen it opens no socket. It syncs to the disk every two minutes. A power
// failure may lose tasks, which the comparison with the rows finds; it cannot lose rows, which are stored
// elsewhere.
func Start(o ServerOptions) (*Server, error) {
	options := &server.Options{
		ServerName: "workbench", JetStream: true, StoreDir: o.Dir,
		DontListen: o.Listen == "", NoSigs: true, NoLog: true,
		MaxPayload: maxMessage, MaxPending: 8 * maxMessage,
		Authorization: o.Token, DisableJetStreamBanner: true,
	}
	if o.Listen != "" {
		if err := o.listen(options); err != nil {
			return nil, err
		}
	}
	s, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("queue: server cannot be made: %w", err)
	}
	log := &serverLog{to: o.Log}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	if !s.ReadyForConnections(readyTimeout) || !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("queue: server does not start: %s; %s contains only tasks and may be deleted", log.last(), o.Dir)
	}
	return &Server{s: s, options: o}, nil
}

// listen checks the options of the socket, so that each error is reported in its own words.
func (o *ServerOptions) listen(options *server.Options) error {
	addr, err := net.ResolveTCPAddr("tcp", o.Listen)
	if err != nil {
		return solve.InputError(fmt.Errorf("queue: cannot listen on %q: HOST:PORT is needed, as in 127.0.0.1:4222: %w", o.Listen, err))
	}
	if o.Token == "" && !addr.IP.IsLoopback() {
		return solve.InputError(fmt.Errorf("queue: %s can be reached from other machines, and without a token anyone could take tasks and "+
			"send results: give one with --token-file", o.Listen))
	}
	l, err := net.ListenTCP("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return solve.InputError(fmt.Errorf("queue: %s is already in use, perhaps by another bench serve or a NATS server: choose "+
			"another port, or stop that one", o.Listen))
	case err != nil:
		return solve.InputError(fmt.Errorf("queue: cannot listen on %s: %w", o.Listen, err))
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return err
	}
	options.Host, options.Port = addr.IP.String(), port
	if addr.IP == nil {
		options.Host = "0.0.0.0"
	}
	if o.Certificate == "" && o.Key == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(o.Certificate, o.Key)
	if err != nil {
		return solve.InputError(fmt.Errorf("queue: certificate %s and key %s cannot be used: %w", o.Certificate, o.Key, err))
	}
	options.TLS, options.TLSConfig, options.TLSTimeout = true,
		&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, 5
	return nil
}

// URL returns where the server listens, empty if it does not.
func (s *Server) URL() string {
	if s.options.Listen == "" {
		return ""
	}
	return s.s.ClientURL()
}

// Clients returns the number of connections from outside this process.
func (s *Server) Clients() int { return s.s.NumClients() - int(s.own.Load()) }

// WaitForClients waits until no connection from outside this process remains, at most until ctx ends.
func (s *Server) WaitForClients(ctx context.Context) {
	for s.Clients() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop stops the server. Its data stays in its folder.
func (s *Server) Stop() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}

// serverLog passes on the errors and warnings of a NATS server.
type serverLog struct {
	to    *slog.Logger
	worst atomic.Pointer[string]
}

func (l *serverLog) log(level slog.Level, format string, v []any) {
	text := strings.TrimSpace(fmt.Sprintf(format, v...))
	if level >= slog.LevelError {
		l.worst.Store(&text)
	}
	if l.to != nil {
		l.to.Log(context.Background(), level, "queue server: "+text)
	}
}

func (l *serverLog) last() string {
	if text := l.worst.Load(); text != nil {
		return *text
	}
	return fmt.Sprintf("not ready after %v", readyTimeout)
}

func (l *serverLog) Noticef(string, ...any)         {}
func (l *serverLog) Warnf(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l *serverLog) Fatalf(format string, v ...any) { l.log(slog.LevelError, format, v) }
func (l *serverLog) Errorf(format string, v ...any) { l.log(slog.LevelError, format, v) }
func (l *serverLog) Debugf(string, ...any)          {}
func (l *serverLog) Tracef(string, ...any)          {}

// Token returns the token in a file, its first line without surrounding blanks.
func Token(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", solve.InputError(fmt.Errorf("token: %w", err))
	}
	line, _, _ := strings.Cut(string(data), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", solve.InputError(fmt.Errorf("token: %s is empty: its first line should be the token, made for example with: openssl rand "+
			"-hex 16", name))
	}
	return line, nil
}
