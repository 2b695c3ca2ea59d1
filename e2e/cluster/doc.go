// Package cluster runs a real Kubernetes with the real Kubeflow Trainer and
// JobSet as plain processes on the loopback interface, for tests and for play.
//
// Everything is the upstream code: etcd, the API server with RBAC, audit log and
// working admission webhooks, all controllers, the scheduler, both Kubeflow
// managers, and for each node a kubelet. Only below the kubelet there is a stand-
// in: a container runtime whose containers are processes of this host. So what a
// pod's status says is what a kubelet says, and what really runs can be asked
// independently of it: see [Cluster.Truth].
//
//	c, err := cluster.Start(ctx, cluster.Options{Nodes: 2})
//	defer c.Stop()
//	job, err := c.SubmitTrainJob(ctx, cluster.TrainJobSpec{Name: "split", Nodes: 2})
//	pods, err := c.WaitRunning(ctx, job)
//	err = c.Node("node-1").CutOff()
//
// # Words
//
// A node is a name in the API. A machine is what the name stands for: an
// identity (system UUID, machine ID, boot ID), a container runtime and its
// processes. Usually a node has one machine for life; [Node.AsAnotherMachine]
// gives the name to another one while the processes of the first live on.
//
// # Waiting
//
// The Wait methods follow watches and return as soon as their condition holds.
// The context's deadline bounds them, or [DefaultWait] where it has none. They
// survive an API server that is away.
//
// # Cleaning up
//
// Each cluster has a directory and an owner, the process that started it. Stop
// ends every process of the cluster and removes the directory. If the owner dies
// without that, the next Start of anyone sweeps up what it left. All is told by
// pid and process start time, and by a mark in each process's environment.
package cluster
