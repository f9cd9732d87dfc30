package oci

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Registry is where Pull gets images from.
type Registry struct {
	// URL is its address: https://registry.example, or http://HOST for one without TLS, which anybody on the way can
	// read. What it has is verified if a digest was asked for; of a tag the registry is believed.
	URL string
	// User and Password are for the registry of URL alone. Without a user they are those of Docker's configuration
	// ($DOCKER_CONFIG/config.json or ~/.docker/config.json), whose helpers are run; if it has none, none.
	User, Password string
	// TLS says whom the registry's certificate is verified by; nil: whom the system trusts.
	TLS *tls.Config
}

// Errors of a registry that does not give what was asked for.
var (
	ErrNotFound    = errors.New("the registry has no such image")
	ErrDenied      = errors.New("the registry wants other credentials")
	ErrUnavailable = errors.New("the registry gives no answer that is of use")
)

// Pull reads an image from a registry: NAME:TAG or NAME@DIGEST.
func Pull(ctx context.Context, from Registry, name string, o Options) (*Image, error) {
	r, err := connect(from, name)
	if err != nil {
		return nil, err
	}
	defer r.client.CloseIdleConnections()
	return read(ctx, r, o)
}

// remoteImage is an image in a registry.
type remoteImage struct {
	repo      *remote.Repository
	client    *http.Client
	reference string
}

func connect(from Registry, name string) (*remoteImage, error) {
	u, err := url.Parse(from.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, invalid("", "%.200q is no address of a registry, such as https://registry.example", from.URL)
	}
	ref, err := orasregistry.ParseReference(u.Host + "/" + name)
	if err != nil {
		return nil, invalid("", "%.200q is no name of an image, such as team/sensor:1.4 or team/sensor@sha256:…", name)
	}
	if ref.Reference == "" {
		return nil, invalid("", "%.200q has neither a tag nor a digest", name)
	}
	if err := checkReference(ref); err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &onlyAllowed{plain: u.Scheme == "http", next: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: patience}).DialContext,
		TLSHandshakeTimeout:   patience,
		ResponseHeaderTimeout: patience,
		ForceAttemptHTTP2:     true,
		TLSClientConfig:       from.TLS,
	}}}
	asks := &auth.Client{Client: client, Cache: auth.NewCache()}
	asks.SetUserAgent("tandem")
	if from.User != "" {
		own := auth.Credential{Username: from.User, Password: from.Password}
		asks.Credential = auth.StaticCredential(ref.Host(), own)
	} else {
		store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading Docker's credentials: %w", err)
		}
		asks.Credential = credentials.Credential(store)
	}
	return &remoteImage{client: client, reference: ref.Reference, repo: &remote.Repository{
		Client: asks, Reference: ref, PlainHTTP: u.Scheme == "http", MaxMetadataBytes: MaxDocument,
		ManifestMediaTypes: []string{v1.MediaTypeImageIndex, v1.MediaTypeImageManifest, dockerIndex, dockerManifest},
	}}, nil
}

// patience is how long a registry may take to begin with an answer.
const patience = 30 * time.Second

func checkReference(ref orasregistry.Reference) error {
	d, err := ref.Digest()
	if err != nil {
		return nil //nolint:nilerr // a tag
	}
	return checkDigest(d)
}

// onlyAllowed lets requests pass that are encrypted, or go to a registry that was named without TLS. So no registry
// with TLS can lead elsewhere without, with a redirection or the address for tokens.
type onlyAllowed struct {
	plain bool
	next  *http.Transport
}

func (o *onlyAllowed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !o.plain {
		return nil, fmt.Errorf("%s://%s is not encrypted", r.URL.Scheme, r.URL.Host)
	}
	return o.next.RoundTrip(r)
}

// CloseIdleConnections is what http.Client looks for.
func (o *onlyAllowed) CloseIdleConnections() { o.next.CloseIdleConnections() }

// roots asks for the manifest or index of the reference. It is read a second time by its digest, and verified then.
func (r *remoteImage) roots(ctx context.Context) ([]v1.Descriptor, error) {
	d, body, err := r.repo.Manifests().FetchReference(ctx, r.reference)
	if err != nil {
		return nil, explain(err)
	}
	text, err := io.ReadAll(io.LimitReader(body, MaxDocument+1))
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, explain(err)
	}
	if len(text) > MaxDocument {
		return nil, invalid("", "the manifest has more than %d bytes", MaxDocument)
	}
	root := v1.Descriptor{MediaType: d.MediaType, Digest: digestOfText(text), Size: int64(len(text))}
	if asked, err := r.repo.Reference.Digest(); err == nil && asked != root.Digest {
		return nil, invalid(asked.String(), "the registry gives another content, of the digest %s", root.Digest)
	}
	return []v1.Descriptor{root}, nil
}

func (r *remoteImage) open(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	from := r.repo.Blobs().Fetch
	if isIndex(d.MediaType) || isManifest(d.MediaType) {
		from = r.repo.Manifests().Fetch
	}
	body, err := from(ctx, d)
	if err != nil {
		return nil, explain(err)
	}
	return &answer{body}, nil
}

// answer is a body whose errors say that it is the registry's.
type answer struct{ io.ReadCloser }

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = explain(err)
	}
	return n, err
}

func (r *remoteImage) Close() error { return nil }

// explain says what kind of error one of the registry is.
func explain(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if e, ok := errors.AsType[*errcode.ErrorResponse](err); ok &&
		(e.StatusCode == http.StatusUnauthorized || e.StatusCode == http.StatusForbidden) {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
