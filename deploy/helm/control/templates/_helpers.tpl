{{/* What both charts share is the same text in both: a test compares the two files. */}}

{{- define "quotaplane.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}-{{ .part }}
{{- end }}

{{- define "quotaplane.selector" -}}
app.kubernetes.io/name: quotaplane
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "quotaplane.labels" -}}
{{ include "quotaplane.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Of the pod: who it is, where it runs, how it leaves. */}}
{{- define "quotaplane.pod" -}}
automountServiceAccountToken: false
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
terminationGracePeriodSeconds: {{ add (div .service.shutdownDeadlineMs 1000) 5 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "quotaplane.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}

{{- define "quotaplane.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
resources: {{- toYaml .service.resources | nindent 2 }}
{{- end }}

{{/* A setting by a file of a mounted secret. */}}
{{- define "quotaplane.fileSetting" -}}
- name: {{ .setting }}_FILE
  value: /secrets/{{ .mount }}/{{ .file }}
{{- end }}

{{/* Certificates to connect with: prefix, mount, tls. */}}
{{- define "quotaplane.clientTls" -}}
{{- if .tls.secret }}
{{ include "quotaplane.fileSetting" (dict "setting" (printf "%s_CA" .prefix) "mount" .mount "file" "ca.crt") }}
{{- if .tls.clientCertificate }}
{{ include "quotaplane.fileSetting" (dict "setting" (printf "%s_CERT" .prefix) "mount" .mount "file" "tls.crt") }}
{{ include "quotaplane.fileSetting" (dict "setting" (printf "%s_KEY" .prefix) "mount" .mount "file" "tls.key") }}
{{- end }}
{{- end }}
{{- end }}

{{/* The certificate to listen with. */}}
{{- define "quotaplane.listenTls" -}}
{{- if .tls.secret }}
{{ include "quotaplane.fileSetting" (dict "setting" (printf "%s_TLS_CERT" .prefix) "mount" "listen" "file" "tls.crt") }}
{{ include "quotaplane.fileSetting" (dict "setting" (printf "%s_TLS_KEY" .prefix) "mount" "listen" "file" "tls.key") }}
{{- if .tls.clientCa }}
{{ include "quotaplane.fileSetting" (dict "setting" (printf "%s_TLS_CLIENT_CA" .prefix) "mount" "listen" "file" "ca.crt") }}
{{- end }}
{{- end }}
{{- end }}

{{/* Secrets as files: mounts is a list of mount and secret; those without a secret are left out. */}}
{{- define "quotaplane.volumeMounts" -}}
{{- range .mounts }}
{{- if .secret }}
- { name: {{ .mount }}, mountPath: /secrets/{{ .mount }}, readOnly: true }
{{- end }}
{{- end }}
{{- end }}

{{- define "quotaplane.volumes" -}}
{{- range .mounts }}
{{- if .secret }}
- name: {{ .mount }}
  secret: { secretName: {{ .secret }}, defaultMode: 0440 }
{{- end }}
{{- end }}
{{- end }}

{{/* Asks path at the port "http". Where callers need a certificate, by the pod's own. */}}
{{- define "quotaplane.probe" -}}
{{- if and .service.tls.secret .service.tls.clientCa }}
exec:
  command:
    - node
    - -e
    - >-
      const read = (name) => require('fs').readFileSync('/secrets/listen/' + name);
      require('https').get({ host: '127.0.0.1', port: {{ .service.port }}, path: '{{ .path }}', rejectUnauthorized: false,
      cert: read('tls.crt'), key: read('tls.key') }, (reply) => process.exit(reply.statusCode === 200 ? 0 : 1))
      .on('error', () => process.exit(1))
{{- else }}
httpGet: { path: {{ .path }}, port: http, scheme: {{ ternary "HTTPS" "HTTP" (ne .service.tls.secret "") }} }
{{- end }}
timeoutSeconds: 2
{{- end }}

{{- define "quotaplane.probes" -}}
startupProbe:
  {{- include "quotaplane.probe" (dict "service" .service "path" "/livez") | nindent 2 }}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  {{- include "quotaplane.probe" (dict "service" .service "path" "/livez") | nindent 2 }}
  periodSeconds: 10
  failureThreshold: 3
readinessProbe:
  {{- include "quotaplane.probe" (dict "service" .service "path" .ready) | nindent 2 }}
  periodSeconds: 2
  failureThreshold: 2
{{- end }}

{{/* Peers of a NetworkPolicy, or everyone. */}}
{{- define "quotaplane.peers" -}}
{{- if .peers }}
{{ .word }}: {{- toYaml .peers | nindent 2 }}
{{- end }}
{{- end }}

{{- define "quotaplane.ports" -}}
{{- range $index, $port := . }}{{ if $index }}, {{ end }}{ port: {{ $port }} }{{ end }}
{{- end }}

{{- define "quotaplane.dns" -}}
- ports:
    - { port: 53, protocol: UDP }
    - { port: 53, protocol: TCP }
{{- end }}

{{- define "quotaplane.autoscaler" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "quotaplane.name" . }}
  labels: {{- include "quotaplane.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ include "quotaplane.name" . }} }
  minReplicas: {{ .service.autoscaling.minReplicas }}
  maxReplicas: {{ .service.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ .service.autoscaling.cpuPercent }} }
  behavior:
    scaleDown: { stabilizationWindowSeconds: 300 }
{{- end }}

{{- define "quotaplane.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "quotaplane.name" . }}
  labels: {{- include "quotaplane.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "quotaplane.selector" . | nindent 6 }}
{{- end }}

{{- define "quotaplane.serviceMonitor" -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "quotaplane.name" . }}
  labels:
    {{- include "quotaplane.labels" . | nindent 4 }}
    {{- with .Values.serviceMonitor.labels }}{{- toYaml . | nindent 4 }}{{- end }}
spec:
  selector:
    matchLabels: {{- include "quotaplane.selector" . | nindent 6 }}
  endpoints:
    - port: http
      path: /metrics
      interval: {{ .Values.serviceMonitor.interval }}
      {{- if .service.tls.secret }}
      scheme: https
      tlsConfig:
        ca: { secret: { name: {{ .service.tls.secret }}, key: ca.crt } }
        serverName: {{ include "quotaplane.name" . }}
        {{- if .service.tls.clientCa }}
        cert: { secret: { name: {{ .service.tls.secret }}, key: tls.crt } }
        keySecret: { name: {{ .service.tls.secret }}, key: tls.key }
        {{- end }}
      {{- end }}
{{- end }}

{{/* Refuses values that are each well formed and cannot work together. Without this the chart would be installed, and
     less protected than its values say, or not start. */}}
{{- define "quotaplane.refuseUnusable" -}}
{{- $part := .part }}
{{- $service := .service }}
{{- with $service.autoscaling }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail (printf "%s.autoscaling.minReplicas: must be at most maxReplicas" $part) }}
{{- end }}
{{- end }}
{{- if and $service.tls.clientCa (not $service.tls.secret) }}
{{- fail (printf "%s.tls.clientCa: needs %s.tls.secret, or nobody is asked for a certificate" $part $part) }}
{{- end }}
{{- if ge (int ($service.drainDelayMs | default 0)) (int $service.shutdownDeadlineMs) }}
{{- fail (printf "%s.drainDelayMs: must be below shutdownDeadlineMs" $part) }}
{{- end }}
{{- if eq (int ($service.grpcPort | default 0)) (int $service.port) }}
{{- fail (printf "%s.grpcPort: must be another port than port" $part) }}
{{- end }}
{{- range $name := list "redis" "nats" "database" }}
{{- with index $.Values $name }}
{{- if and .tls.clientCertificate (not .tls.secret) }}
{{- fail (printf "%s.tls.clientCertificate: needs %s.tls.secret, which has it" $name $name) }}
{{- end }}
{{- if and (eq $name "redis") .tls.secret (not (hasPrefix "rediss" .url)) }}
{{- fail "redis.url: must be rediss:// or rediss+…://, since redis.tls.secret is set" }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $value := $service.env }}
{{- if regexMatch "^(REGION|LOG_LEVEL|DRAIN_DELAY_MS|SHUTDOWN_DEADLINE_MS|OIDC_.*|(REDIS|NATS)_(URL|USERNAME|CA|CERT)|[A-Z]+_(HOST|PORT|GRPC_PORT|TLS_[A-Z_]+))$" $name }}
{{- fail (printf "%s.env.%s: is set by a value of its own" $part $name) }}
{{- end }}
{{- if regexMatch "(PASSWORD|SEED|TOKEN|_KEY|OTLP_HEADERS|DATABASE_(MIGRATION_)?URL)$" $name }}
{{- fail (printf "%s.env.%s: is a secret, which values must not hold; name it in %s.secretEnv" $part $name $part) }}
{{- end }}
{{- end }}
{{- end }}

{{/* More settings: those that values hold, and those of secrets. */}}
{{- define "quotaplane.moreSettings" -}}
{{- range $name, $value := .env }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- range $name, $from := .secretEnv }}
- { name: {{ $name }}, valueFrom: { secretKeyRef: { name: {{ $from.secret }}, key: {{ $from.key }} } } }
{{- end }}
{{- end }}
