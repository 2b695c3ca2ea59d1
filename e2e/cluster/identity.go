package cluster

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig writes a kubeconfig for a user and returns its path. The user has
// the permissions that RBAC gives to its name and groups, which may be none; see
// [Cluster.UserWithRules]. A service account is the user
// system:serviceaccount:NAMESPACE:NAME.
func (c *Cluster) Kubeconfig(user string, groups ...string) (string, error) {
	cert, key, err := c.ca.client(user, groups)
	if err != nil {
		return "", fmt.Errorf("certificate for user %s: %w", user, err)
	}
	const name = "orphand-e2e"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.apiURL(), CertificateAuthorityData: c.ca.pem()}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	b, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.Dir, "kubeconfigs", url.PathEscape(user)+".kubeconfig")
	return file, writeFile(file, b, 0o600)
}

// UserWithRules gives a user exactly these cluster-wide permissions and returns
// a kubeconfig for it. Called again for the same user it replaces the rules,
// which takes effect within a moment; the kubeconfig stays good.
func (c *Cluster) UserWithRules(ctx context.Context, user string, rules []rbacv1.PolicyRule) (string, error) {
	name := "orphand-e2e:" + user
	roles, bindings := c.Client().RbacV1().ClusterRoles(), c.Client().RbacV1().ClusterRoleBindings()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	_, err := roles.Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("permissions of user %s: %w", user, err)
	}
	_, err = bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("permissions of user %s: %w", user, err)
	}
	return c.Kubeconfig(user)
}

// AdminKubeconfig is the path of a kubeconfig that may do everything.
func (c *Cluster) AdminKubeconfig() string {
	return filepath.Join(c.Dir, "kubeconfigs", "admin.kubeconfig")
}

// serviceAccount returns the user name and groups of a service account.
func serviceAccount(namespace, name string) (user string, groups []string) {
	return "system:serviceaccount:" + namespace + ":" + name,
		[]string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}
