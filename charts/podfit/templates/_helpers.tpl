{{- define "podfit.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "podfit.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "podfit.selectorLabels" -}}
app.kubernetes.io/name: {{ include "podfit.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "podfit.labels" -}}
{{ include "podfit.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/* Of the Pod of `helm test`: the Service must not take it for a replica. */}}
{{- define "podfit.testLabels" -}}
app.kubernetes.io/name: {{ include "podfit.name" . | trunc 58 }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "podfit.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ required "image.repository is not set: set it to the repository that podfit's image was pushed to, such as registry.example.com/podfit" .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end -}}

{{/* Values that earlier charts did not have: `helm upgrade --reuse-values` gives no defaults for them. */}}
{{- define "podfit.podSecurity" -}}
{{- if hasKey .Values "podSecurityContext" -}}
{{- toYaml .Values.podSecurityContext -}}
{{- else -}}
{runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
{{- end -}}
{{- end -}}

{{- define "podfit.containerSecurity" -}}
{{- if hasKey .Values "securityContext" -}}
{{- toYaml .Values.securityContext -}}
{{- else -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end -}}
{{- end -}}

{{/* Each constraint without a labelSelector gets the one of the release. */}}
{{- define "podfit.spread" -}}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "podfit.selectorLabels" . | fromYaml)) -}}
{{- range .Values.topologySpreadConstraints }}
- {{ ternary . (merge (deepCopy .) $own) (hasKey . "labelSelector") | toYaml | nindent 2 | trim }}
{{- end -}}
{{- end -}}

{{- define "podfit.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "podfit.fullname" .) -}}
{{- end -}}

{{/* The kinds that are watched, separated by commas. */}}
{{- define "podfit.watched" -}}
{{- $kinds := list -}}
{{- range $kind, $on := .Values.watch -}}
  {{- if $on -}}
    {{- $kinds = append $kinds $kind -}}
  {{- end -}}
{{- end -}}
{{- join "," $kinds | default "none" -}}
{{- end -}}

{{/* The Secret with the certificate. What podfit keeps itself has a name of its own: who changes the mode gets another. */}}
{{- define "podfit.secret" -}}
{{- if eq .Values.certificates.mode "files" -}}
{{- required "certificates.secret is needed with certificates.mode files" .Values.certificates.secret -}}
{{- else -}}
{{- printf "%s-%s" (include "podfit.fullname" .) (ternary "certificates" "tls" (eq .Values.certificates.mode "self")) -}}
{{- end -}}
{{- end -}}

{{- define "podfit.host" -}}
{{- printf "%s.%s.svc" (include "podfit.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* Who owns the caBundle: podfit itself, cert-manager's injector, or the user. Never two of them. */}}
{{- define "podfit.caBundle" -}}
{{- if eq .Values.certificates.mode "files" -}}
{{- $bundle := required "certificates.caBundle is needed with certificates.mode files" .Values.certificates.caBundle -}}
{{- if not (regexMatch "-----BEGIN CERTIFICATE-----\\s[A-Za-z0-9+/=\\s]+-----END CERTIFICATE-----" $bundle) -}}
{{- fail (printf "certificates.caBundle %q: not PEM; expected the text of the CA, from -----BEGIN CERTIFICATE----- on" (trunc 40 $bundle)) -}}
{{- end -}}
caBundle: {{ $bundle | b64enc }}
{{- end -}}
{{- end -}}

{{/* 90d, 12h, 10m, 30s → seconds. */}}
{{- define "podfit.seconds" -}}
{{- mul (regexFind "^[0-9]+" .) (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) (regexFind ".$" .)) -}}
{{- end -}}

{{/* Rejects models with which the server would not start (webhook/podfit/vllm/model/given.py). Python reads Infinity and NaN, Go does not. */}}
{{- define "podfit.readModels" -}}
{{- $words := list "num_hidden_layers" "n_layer" "n_layers" "num_layers" "hidden_size" "d_model" "n_embd" "model_type" -}}
{{- range $name, $text := .Values.models -}}
  {{- $config := regexReplaceAll "\\b(Infinity|NaN)\\b" $text "0" | fromJson -}}
  {{- if and (hasKey $config "Error") (eq (len $config) 1) -}}
    {{- fail (printf "models %q: not JSON: %s" $name $config.Error) -}}
  {{- end -}}
  {{- $known := list -}}
  {{- range $part := prepend (values $config) $config -}}
    {{- if kindIs "map" $part -}}
      {{- range $word := $words -}}
        {{- if hasKey $part $word -}}{{- $known = append $known $word -}}{{- end -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
  {{- if not (or $known (hasSuffix ".measured" $name)) -}}
    {{- fail (printf "models %q: no config.json of a model: none of %s … in it" $name (slice $words 0 4 | join ", ")) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "podfit.webhookAnnotations" -}}
{{- if eq .Values.certificates.mode "cert-manager" -}}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "podfit.fullname" . }}
{{- end -}}
{{- end -}}

{{/* What all four webhooks share; takes (dict "root" $ "path" "/validate"). */}}
{{- define "podfit.webhook" -}}
admissionReviewVersions: [v1]
clientConfig:
  service:
    name: {{ include "podfit.fullname" .root }}
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: {{ .root.Values.service.port }}
  {{- with include "podfit.caBundle" .root }}
  {{ . }}
  {{- end }}
failurePolicy: {{ .failurePolicy | default .root.Values.webhooks.failurePolicy }}
matchPolicy: Equivalent
sideEffects: None
timeoutSeconds: {{ .root.Values.webhooks.timeoutSeconds }}
namespaceSelector:
  {{- with .root.Values.webhooks.namespaceSelector.matchLabels }}
  matchLabels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
        {{- append .root.Values.webhooks.excludedNamespaces .root.Release.Namespace | uniq | toYaml | nindent 8 }}
    {{- with .root.Values.webhooks.namespaceSelector.matchExpressions }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The match conditions, in CEL. An API server evaluates all conditions of a webhook, in their order, and an error in one
follows failurePolicy. So every step is optional (`.?`, `orValue`; a list may be there and null: `ofNonZeroValue`), and
guards bound the cost, whatever an author writes: an expression may cost 1,000,000, all conditions of a webhook 2,500,000
(k8s.io/apiserver pkg/apis/cel/config.go). The costliest object costs 820,000 (5,000 containers, each with an image, a
resource and a variable of the longest names that are read; kube-apiserver 1.36.3).

Time is bounded apart from that: CEL's cost tracker searches a stack that each iteration of a loop makes longer (cel-go
interpreter/runtimecost.go, refValStack), so that a loop over n items takes n² steps. Therefore no list of more than 2,000
items is looped over, words are joined before they are searched, and 5,000 containers are 50 loops over 100.

`[x].exists(name, …)` gives a value a name: cel.bind is newer than Kubernetes 1.30. docs/security.md lists for authors what
is read. */}}

{{/* Whether a container mentions vLLM. A flag may be written with underscores, as vLLM's parser takes it. */}}
{{- define "podfit.mentionsVLLM" -}}
size(c.?image.orValue("")) <= 500 && c.?image.orValue("").lowerAscii().matches("vllm|llm-d|huggingfaceserver") ||
c.?env.orValue([]).exists(e, size(e.name) <= 100 && e.name.startsWith("VLLM_")) ||
[c.?command.orValue([]), c.?args.orValue([])].exists(words,
  [words.join("\n").lowerAscii().replace("_", "-")].exists(text, text.contains("vllm") ||
    text.contains("--max-model-len") || text.contains("--gpu-memory-utilization")))
{{- end -}}

{{/* API groups of accelerators' resources: those of webhook/podfit/vllm/gpu/resource.py. */}}
{{- define "podfit.acceleratorVendors" -}}
["aliyun.com", "amd.com", "aws.amazon.com", "birentech.com", "cambricon.com", "cloud-tpus.google.com", "enflame.com",
 "furiosa.ai", "google.com", "gpu.intel.com", "habana.ai", "hami.io", "huawei.com", "hygon.com", "iluvatar.ai",
 "kunlunxin.com", "metax-tech.com", "mthreads.com", "nvidia.com", "qualcomm.com", "rebellions.ai", "tencent.com",
 "tke.cloud.tencent.com", "volcano.sh"]
{{- end -}}

{{/* Whether a container asks for an accelerator, or names vLLM in its image or a variable: what is looked at in an object
that is too large for more. The more containers, the shorter the lists that are looked at. */}}
{{- define "podfit.asksForAccelerator" -}}
size(c.?image.orValue("")) <= 500 && c.?image.orValue("").contains("vllm") ||
c.?resources.?limits.optMap(limits, "nvidia.com/gpu" in limits ||
  size(limits) <= 16 && size(limits) * size(all) <= 5000 && limits.exists(name, size(name) <= 100 &&
    name.split("/")[0] in {{- include "podfit.acceleratorVendors" . | nindent 6 }})).orValue(false) ||
c.?env.optMap(env, size(env) <= 1000 && size(env) * size(all) <= 5000 &&
  env.exists(e, size(e.name) <= 100 && e.name.startsWith("VLLM_"))).orValue(false)
{{- end -}}

{{/* Takes the CEL of an optional PodSpec. */}}
{{- define "podfit.concernsVLLM" -}}
[{{ . }}.orValue({})].exists(spec,
  [optional.ofNonZeroValue(spec.?containers.orValue([])).orValue([]) + spec.?initContainers.orValue([])].exists(all,
    size(all) <= 100 &&
    all.map(c, size(c.?command.orValue([])) + size(c.?args.orValue([]))).sum() <= 2000 &&
    all.map(c, size(c.?env.orValue([]))).sum() <= 2000 &&
    all.map(c, c.?command.orValue([]).map(word, size(word)).sum() +
      c.?args.orValue([]).map(word, size(word)).sum()).sum() <= 400000
    ? all.exists(c,
        {{- include "podfit.mentionsVLLM" . | nindent 8 }})
    : size(spec.?resourceClaims.orValue([])) > 0 || size(all) <= 5000 &&
      [{{ untilStep 0 5000 100 | join ", " }}].exists(row, row < size(all) &&
      [{{ until 100 | join ", " }}].exists(column,
      all[?(row + column)].optMap(c,
        {{- include "podfit.asksForAccelerator" . | nindent 8 }}).orValue(false)))))
{{- end -}}

{{/* A PodTemplate has `template` for `spec`, a KAITO Workspace `inference`. */}}
{{- define "podfit.changed" -}}
- name: is-not-being-deleted
  expression: '!has(object.metadata.deletionTimestamp)'
- name: changes-what-is-judged
  expression: |-
    oldObject == null || object.?spec != oldObject.?spec ||
    object.?template != oldObject.?template || object.?inference != oldObject.?inference
{{- end -}}

{{- define "podfit.podConditions" -}}
- name: is-no-mirror-pod
  expression: '!("kubernetes.io/config.mirror" in object.metadata.?annotations.orValue({}))'
{{ include "podfit.changed" . }}
- name: has-vllm
  expression: |-
    {{- include "podfit.concernsVLLM" "object.?spec" | nindent 4 }}
{{- end -}}

{{/* Kubernetes' own API groups, and "v1", the whole apiVersion of the core group: those of
webhook/podfit/kube/workload/controller.py. */}}
{{- define "podfit.builtInGroups" -}}
["v1", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps",
 "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io",
 "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions", "flowcontrol.apiserver.k8s.io",
 "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io",
 "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io"]
{{- end -}}

{{/* What a controller made (a Deployment's ReplicaSet, a CronJob's Job) was evaluated at its owner, where its author reads the
answer. Owners count only if the requester may be a controller: a user without the reserved prefix only claims them. A
service account of the object's own namespace may be a tenant's, so what it makes is sent, and at most warned about. An
owner of a built-in group counts only if its kind makes this one: takes the CEL that says which do. */}}
{{- define "podfit.hasNoController" -}}
- name: has-no-controller
  expression: |-
    [request.userInfo.?username.orValue("")].exists(user, !user.startsWith("system:") ||
      user.startsWith("system:serviceaccount:" + request.?namespace.orValue("") + ":")) ||
    ![optional.ofNonZeroValue(object.metadata.?ownerReferences.orValue([])).orValue([])].exists(owners,
      size(owners) <= 100 && owners.exists(o, o.?controller.orValue(false) == true &&
        size(o.?apiVersion.orValue("")) <= 500 && (!(o.?apiVersion.orValue("").split("/")[0] in
          {{- include "podfit.builtInGroups" . | nindent 10 }})
        {{- with . }} ||
        {{- . | nindent 8 }}
        {{- end }})))
{{- end -}}

{{/* The Pod template of Kubernetes' own kinds: spec.template.spec, a CronJob's, a PodTemplate's. The workers' StatefulSet
of a LeaderWorkerSet is controlled by the leader's Pod. */}}
{{- define "podfit.workloadConditions" -}}
{{- $makes := `o.apiVersion.split("/")[0] in ["apps", "extensions"] && o.kind == "Deployment" && request.kind.kind == "ReplicaSet" ||
o.apiVersion.startsWith("batch/") && o.kind == "CronJob" && request.kind.kind == "Job" ||
o.apiVersion == "v1" && o.kind == "Pod" && request.kind.kind == "StatefulSet" &&
  "leaderworkerset.sigs.k8s.io/name" in object.metadata.?labels.orValue({})` -}}
{{ include "podfit.hasNoController" $makes }}
{{ include "podfit.changed" . }}
- name: has-vllm
  expression: |-
    {{- $template := "object.?spec.?template.?spec" -}}
    {{- $job := "object.?spec.?jobTemplate.?spec.?template.?spec" -}}
    {{- include "podfit.concernsVLLM" (printf "%s.or(%s).or(object.?template.?spec)" $template $job) | nindent 4 }}
{{- end -}}

{{/* Serving and training kinds of operators name vLLM in many places: all that changed are sent. */}}
{{- define "podfit.customConditions" -}}
{{ include "podfit.hasNoController" "" }}
{{ include "podfit.changed" . }}
{{- end -}}

{{- define "podfit.workloadRules" -}}
- apiGroups: [apps]
  apiVersions: [v1]
  resources: [deployments, statefulsets, daemonsets, replicasets]
  operations: [CREATE, UPDATE]
  scope: Namespaced
- apiGroups: [batch]
  apiVersions: [v1]
  resources: [jobs, cronjobs]
  operations: [CREATE, UPDATE]
  scope: Namespaced
- apiGroups: [""]
  apiVersions: [v1]
  resources: [replicationcontrollers, podtemplates]
  operations: [CREATE, UPDATE]
  scope: Namespaced
{{- end -}}

{{/* Group → resources of operators' kinds. Not Argo's workflows: their controller writes each step into the object. */}}
{{- define "podfit.customKinds" -}}
apps.kruise.io: [clonesets, statefulsets]
apps.openshift.io: [deploymentconfigs]
argoproj.io: [clusterworkflowtemplates, cronworkflows, rollouts, workflowtemplates]
batch.volcano.sh: [jobs]
grove.io: [podcliquesets]
inference.llmaz.io: [services]
jobset.x-k8s.io: [jobsets]
kaito.sh: [workspaces]
leaderworkerset.x-k8s.io: [leaderworkersets]
nvidia.com: [dynamographdeployments]
ome.io: [clusterservingruntimes, servingruntimes]
orchestration.aibrix.ai: [rayclusterfleets, rayclusterreplicasets, rolesets, stormservices]
ray.io: [rayclusters, rayjobs, rayservices]
serving.knative.dev: [configurations, services]
serving.kserve.io: [clusterservingruntimes, inferenceservices, llminferenceserviceconfigs, llminferenceservices, servingruntimes]
workload.serving.volcano.sh: [modelservings]
{{- end -}}

{{/* A kind that is not installed matches nothing. */}}
{{- define "podfit.customRules" -}}
{{- range $group, $resources := include "podfit.customKinds" . | fromYaml }}
- apiGroups: [{{ $group }}]
  apiVersions: ["*"]
  resources: [{{ join ", " $resources }}]
  operations: [CREATE, UPDATE]
  scope: "*"
{{- end }}
{{- end -}}

{{- define "podfit.scanLabels" -}}
app.kubernetes.io/name: {{ include "podfit.name" . }}-scan
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "podfit.exporterSelector" -}}
app.kubernetes.io/name: {{ include "podfit.name" . }}-scan
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: exporter
{{- end -}}

{{/* A Pod that scans, under the server's policy and models; takes (dict "root" $ "name" … "args" (list …) "ports" (list …)). */}}
{{- define "podfit.scanPod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ .name }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- include "podfit.podSecurity" .root | nindent 2 }}
containers:
  - name: scan
    image: {{ include "podfit.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args:
      - scan
      - --policy=/etc/podfit/policy/policy.yaml
      {{- if or $values.models $values.modelsVolume }}
      - --models=/etc/podfit/models
      {{- end }}
      {{- range .args }}
      - {{ . }}
      {{- end }}
    {{- with .ports }}
    ports:
      {{- toYaml . | nindent 6 }}
    readinessProbe:
      httpGet:
        path: /metrics
        port: metrics
      periodSeconds: 10
    {{- end }}
    resources:
      {{- toYaml $values.scan.resources | nindent 6 }}
    securityContext:
      {{- include "podfit.containerSecurity" .root | nindent 6 }}
    volumeMounts:
      - name: policy
        mountPath: /etc/podfit/policy
        readOnly: true
      {{- if or $values.models $values.modelsVolume }}
      - name: models
        mountPath: /etc/podfit/models
        readOnly: true
      {{- end }}
volumes:
  - name: policy
    configMap:
      name: {{ include "podfit.fullname" .root }}-policy
  {{- if $values.modelsVolume }}
  - name: models
    {{- toYaml $values.modelsVolume | nindent 4 }}
  {{- else if $values.models }}
  - name: models
    configMap:
      name: {{ include "podfit.fullname" .root }}-models
  {{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
