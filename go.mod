module github.com/orphand/orphand

go 1.26.0

require (
	github.com/go-logr/zapr v1.3.0
	github.com/kubeflow/trainer/v2 v2.3.0
	github.com/prometheus/client_golang v1.25.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	go.uber.org/zap v1.28.0
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/cli-runtime v0.37.2
	k8s.io/client-go v0.37.2
	k8s.io/klog/v2 v2.140.0
	k8s.io/utils v0.0.0-20260626114624-be93311217bd
	sigs.k8s.io/jobset v0.12.0
	sigs.k8s.io/yaml v1.6.0
)
