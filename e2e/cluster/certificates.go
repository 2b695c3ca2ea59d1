package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

// authority is the cluster's own certificate authority. It signs one serving
// certificate, for the API server and both webhook servers, and a client
// certificate for each identity; new identities need no restart of anything.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

const validity = 365 * 24 * time.Hour

// newAuthority makes the keys of a new cluster in dir/pki.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &authority{key: key, cert: &x509.Certificate{
		Subject:               pkix.Name{CommonName: "orphand-e2e"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}}
	der, err := ca.sign(ca.cert, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}

	server, serverKey, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "127.0.0.1"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
	})
	if err != nil {
		return nil, err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	caKey, err := pemKey(key)
	if err != nil {
		return nil, err
	}
	accountsKey, err := pemKey(accounts)
	if err != nil {
		return nil, err
	}
	for name, b := range map[string][]byte{
		"ca.crt": pemCertificate(der), "ca.key": caKey,
		"tls.crt": server, "tls.key": serverKey,
		"service-accounts.key": accountsKey,
	} {
		if err := writeFile(filepath.Join(dir, "pki", name), b, 0o600); err != nil {
			return nil, err
		}
	}
	return ca, nil
}

// loadAuthority reads what newAuthority wrote.
func loadAuthority(dir string) (*authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "ca.crt"), filepath.Join(dir, "pki", "ca.key"))
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("certificate authority: key in %s is not an EC key", dir)
	}
	return &authority{cert: pair.Leaf, key: key}, nil
}

// client returns a certificate for a user, with its key, in PEM.
func (a *authority) client(user string, groups []string) (cert, key []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := a.sign(template, &k.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	key, err = pemKey(k)
	return pemCertificate(der), key, err
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(validity)
	return x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key)
}

func pemCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func pemKey(k *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// probe is a client for readiness endpoints.
func (a *authority) probe() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
	}
}

func (a *authority) pem() []byte { return pemCertificate(a.cert.Raw) }
