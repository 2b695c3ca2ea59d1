package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/orphand/orphand/pkg/access"
)

// account writes a kubeconfig with a token of the service account that the
// manifests make, for a server: the API server itself, or one in front of it.
func account(t *testing.T, server string, ca []byte) string {
	t.Helper()
	token, err := shared.Client().CoreV1().ServiceAccounts(access.Namespace).CreateToken(t.Context(), access.Account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return withToken(t, token.Status.Token, server, ca)
}

// withToken writes a kubeconfig with a token for a server.
func withToken(t *testing.T, token, server string, ca []byte) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["it"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	config.CurrentContext = "it"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// directly is the account without anything in front of the API server.
func directly(t *testing.T) string {
	t.Helper()
	config := shared.Config()
	return account(t, config.Host, config.CAData)
}

// arguments are those of the Deployment's container, with its environment's values
// in the places of their names.
func arguments(t *testing.T) []string {
	t.Helper()
	deployment, err := shared.Client().AppsV1().Deployments(access.Namespace).Get(t.Context(), "orphand", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	values := map[string]string{}
	for _, from := range container.EnvFrom {
		config, err := shared.Client().CoreV1().ConfigMaps(access.Namespace).Get(t.Context(), from.ConfigMapRef.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range config.Data {
			values[name] = value
		}
	}
	var list []string
	for _, arg := range container.Args {
		for name, value := range values {
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		if strings.Contains(arg, "$(") {
			t.Fatalf("%s stands for nothing", arg)
		}
		list = append(list, arg)
	}
	// As a process, it does not know the namespace that it would run in.
	return append(list, "--leader-elect-lease-namespace="+access.Namespace)
}

// mustExist is a path of the repository that a test needs.
func mustExist(t *testing.T, path string) string {
	t.Helper()
	path = filepath.Join(root, path)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func isThere(o *unstructured.Unstructured) bool { return o != nil }
