package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/orphand/orphand/pkg/reap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// StoreName is the ConfigMap of a ConfigMapStore. Permissions name it.
const StoreName = "orphand-removals"

// ConfigMapStore is a Store in one ConfigMap, a page for each key.
type ConfigMapStore struct {
	Client kubernetes.Interface
	// Namespace is where the ConfigMap is; empty for nowhere.
	Namespace string
	// Leads says whether this process may write, at the moment when it is asked.
	Leads func() bool
}

var _ Store = (*ConfigMapStore)(nil)

// Load satisfies Store.
func (s *ConfigMapStore) Load(ctx context.Context) (map[int][]byte, error) {
	if s.Namespace == "" {
		return nil, fmt.Errorf("%w: orphand does not run in a namespace, and --leader-elect-lease-namespace names none", ErrNoStore)
	}
	c, err := s.Client.CoreV1().ConfigMaps(s.Namespace).Get(ctx, StoreName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.trouble("reading", err)
	}
	pages := map[int][]byte{}
	for key, data := range c.BinaryData {
		page, err := strconv.Atoi(key)
		if err != nil {
			page = -1 // nobody's: told of as damaged
		}
		pages[page] = data
	}
	return pages, nil
}

// Save satisfies Store. It takes one call but for the first time.
func (s *ConfigMapStore) Save(ctx context.Context, page int, data []byte) error {
	key := strconv.Itoa(page)
	patch, err := json.Marshal(map[string]any{"binaryData": map[string][]byte{key: data}})
	if err != nil {
		return err
	}
	maps := s.Client.CoreV1().ConfigMaps(s.Namespace)
	// The last thing before each write, as before a DELETE: a process that slept must not put back what it knew then.
	if !s.Leads() {
		return reap.ErrNotLeading
	}
	_, err = maps.Patch(ctx, StoreName, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		if !s.Leads() {
			return reap.ErrNotLeading
		}
		_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: StoreName},
			BinaryData: map[string][]byte{key: data}}, metav1.CreateOptions{})
	}
	if err != nil {
		return s.trouble("writing", err)
	}
	return nil
}

// trouble tells what only a person can put right from what passes.
func (s *ConfigMapStore) trouble(doing string, err error) error {
	err = fmt.Errorf("%s ConfigMap %s/%s: %w", doing, s.Namespace, StoreName, err)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) { // no permission, no namespace
		return fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	return err
}
