module example.com/tools/crds

go 1.26.0

require (
	github.com/aws/karpenter-provider-aws v1.14.1
	github.com/kedacore/keda/v2 v2.20.2
	github.com/prometheus-operator/prometheus-operator v0.93.1
	github.com/ray-project/kuberay/ray-operator v1.5.0
)
