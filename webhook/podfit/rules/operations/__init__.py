"""Rules about replicas, rollouts, images, secrets and what else a service needs to stay up."""
