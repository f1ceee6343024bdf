package queue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
)

// certificate writes a certificate for this machine that signs itself, and its
// key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	s := start(t, ServerOptions{Listen: "127.0.0.1:0", Token: "secret", Certificate: cert, Key: key})
	if !strings.HasPrefix(s.URL(), "tls://127.0.0.1:") {
		t.Errorf("listens on %s", s.URL())
	}
	create(t, s.Address(), "tls", Options{})
	q, err := Join(t.Context(), Address{URL: s.URL(), Token: "secret", CA: cert}, "tls", "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if !q.nc.TLSRequired() {
		t.Error("the connection is not secure")
	}
	if n := s.Clients(); n != 1 {
		t.Errorf("%d connections from outside, want 1", n)
	}
	_, err = Join(t.Context(), Address{URL: s.URL(), Token: "secret"}, "tls", "", Options{})
	if !errors.Is(err, solve.ErrInput) || !strings.Contains(err.Error(), "--tls-ca") {
		t.Errorf("unknown authority: %v", err)
	}
	plain := start(t, ServerOptions{Listen: "127.0.0.1:0"})
	_, err = Join(t.Context(), Address{URL: strings.Replace(plain.URL(), "nats://", "tls://", 1)}, "tls", "", Options{})
	if !errors.Is(err, solve.ErrInput) || !strings.Contains(err.Error(), "nats:// instead of tls://") {
		t.Errorf("no TLS: %v", err)
	}
}
