package install_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/orphand/orphand/pkg/access"
)

// The API server's own admission judges the Deployment's pod, in a namespace that
// enforces the Pod Security level restricted.
func TestThePodIsAdmittedAsRestrictedAndOneWithMoreIsNot(t *testing.T) {
	apply(t, "observe")
	uninstall(t, "observe")
	namespace, err := shared.Client().CoreV1().Namespaces().Get(t.Context(), access.Namespace, metav1.GetOptions{})
	if err != nil || namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Fatalf("%v: %v", err, namespace.Labels)
	}
	deployment, err := shared.Client().AppsV1().Deployments(access.Namespace).Get(t.Context(), "orphand", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, loosen := range map[string]func(*corev1.PodSpec){
		"":                        func(*corev1.PodSpec) {},
		"with capabilities":       func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities.Drop = nil },
		"as root":                 func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot, s.SecurityContext.RunAsUser = nil, nil },
		"without seccomp":         func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil },
		"with more privileges":    func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"in the host's network":   func(s *corev1.PodSpec) { s.HostNetwork = true },
		"with the host's files":   func(s *corev1.PodSpec) { hostFiles(s) },
		"with a port of the host": func(s *corev1.PodSpec) { s.Containers[0].Ports[0].HostPort = 8080 },
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "tried", Labels: deployment.Spec.Template.Labels}, Spec: *deployment.Spec.Template.Spec.DeepCopy()}
		loosen(&pod.Spec)
		_, err := shared.Client().CoreV1().Pods(access.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case what == "" && err != nil:
			t.Errorf("as it is: %v", err)
		case what != "" && (err == nil || !strings.Contains(err.Error(), "violates PodSecurity")):
			t.Errorf("%s it is admitted: %v", what, err)
		}
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if !ptr.Deref(container.SecurityContext.ReadOnlyRootFilesystem, false) {
		t.Error("the root file system can be written to, which no Pod Security level asks about")
	}
	if _, ok := container.Resources.Requests[corev1.ResourceMemory]; !ok || container.Resources.Limits.Memory().IsZero() {
		t.Error("no memory is requested, or none limited")
	}
}

func hostFiles(s *corev1.PodSpec) {
	s.Volumes = append(s.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
}

// built are the objects of an overlay with components, as kustomize makes them.
func built(t *testing.T, overlay string, components ...string) []*unstructured.Unstructured {
	t.Helper()
	var list []*unstructured.Unstructured
	for document := range strings.SplitSeq(kubectl(t, "kustomize", kustomization(t, overlay, components...)), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		list = append(list, o)
	}
	return list
}

// into finds the one object of a kind and name, and reads it as its type.
func into[T any](t *testing.T, list []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	i := slices.IndexFunc(list, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("no %s %s", kind, name)
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(list[i].Object, typed, true); err != nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return typed
}

// What refers to the Deployment's pods and ports by name is right with all
// components together: nobody else would notice, since there is no operator, no
// network and no drain here.
func TestAllComponentsTogetherReferToWhatIsThere(t *testing.T) {
	names, err := os.ReadDir(mustExist(t, "manifests/components"))
	if err != nil {
		t.Fatal(err)
	}
	components := []string{"prometheus", "protected-metrics"} // these come in an order
	for _, n := range names {
		if !slices.Contains(components, n.Name()) {
			components = append(components, n.Name())
		}
	}
	list := built(t, "observe", components...)
	deployment := into[appsv1.Deployment](t, list, "Deployment", "orphand")
	pods := labels.Set(deployment.Spec.Template.Labels)
	container := deployment.Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	selects := func(what string, s *metav1.LabelSelector) {
		t.Helper()
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || selector.Empty() || !selector.Matches(pods) {
			t.Errorf("%s selects no pod of the Deployment: %v, %v", what, selector, err)
		}
	}
	selects("the Deployment", deployment.Spec.Selector)
	budget := into[policyv1.PodDisruptionBudget](t, list, "PodDisruptionBudget", "orphand")
	selects("the PodDisruptionBudget", budget.Spec.Selector)
	if *deployment.Spec.Replicas < 2 || budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("%d replicas, of which %v may be away", *deployment.Spec.Replicas, budget.Spec.MaxUnavailable)
	}
	spread := map[string]bool{}
	for _, c := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selects("the spread over "+c.TopologyKey, c.LabelSelector)
		spread[c.TopologyKey] = true
	}
	if !spread[corev1.LabelHostname] || !spread[corev1.LabelTopologyZone] {
		t.Errorf("spread over %v", spread)
	}
	network := into[networkingv1.NetworkPolicy](t, list, "NetworkPolicy", "orphand")
	selects("the NetworkPolicy", &network.Spec.PodSelector)
	let := map[string]bool{}
	for _, rule := range network.Spec.Ingress {
		for _, p := range rule.Ports {
			let[p.Port.String()] = true
		}
	}
	for name := range ports {
		if !let[name] {
			t.Errorf("the NetworkPolicy lets nobody through to the port %s", name)
		}
	}
	service := into[corev1.Service](t, list, "Service", "orphand")
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(pods) || ports[service.Spec.Ports[0].TargetPort.String()] == 0 {
		t.Errorf("the Service leads nowhere: %+v", service.Spec)
	}
	monitor := into[podMonitor](t, list, "PodMonitor", "orphand")
	selects("the PodMonitor", &monitor.Spec.Selector)
	for _, e := range monitor.Spec.PodMetricsEndpoints {
		if ports[e.Port] == 0 || e.Scheme != "https" || e.Path != "/metrics" {
			t.Errorf("the PodMonitor scrapes %+v, and the ports are %v", e, slices.Collect(maps.Keys(ports)))
		}
		secret := into[corev1.Secret](t, list, "Secret", e.Authorization.Credentials.Name)
		if secret.Type != corev1.SecretTypeServiceAccountToken || e.Authorization.Credentials.Key != corev1.ServiceAccountTokenKey {
			t.Errorf("the PodMonitor's token is %+v of %s", e.Authorization, secret.Type)
		}
	}
	for _, m := range container.VolumeMounts {
		if !slices.ContainsFunc(deployment.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("nothing is mounted at %s", m.MountPath)
		}
	}
	// The kubelet has no token: health stays where nobody is asked for one.
	for _, p := range []corev1.Probe{*container.LivenessProbe, *container.ReadinessProbe} {
		if ports[p.HTTPGet.Port.String()] == 0 || p.HTTPGet.Scheme == corev1.URISchemeHTTPS {
			t.Errorf("the probe asks %+v", p.HTTPGet)
		}
	}
}

// podMonitor is what the manifests use of the Prometheus operator's PodMonitor.
type podMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port      string `json:"port"`
			Path      string `json:"path"`
			Interval  string `json:"interval"`
			Scheme    string `json:"scheme"`
			TLSConfig struct {
				InsecureSkipVerify bool `json:"insecureSkipVerify"`
			} `json:"tlsConfig"`
			Authorization struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}
