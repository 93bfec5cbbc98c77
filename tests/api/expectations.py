"""What every route answers to whom. A route without a line here fails the test that walks them.

nobody     no token at all
stranger   member of another tenant
viewer, member, admin   of the tenant whose things are asked for
operator   of the platform
read-only  the operator's read-only token
no csrf    the operator's session, without the X-CSRFToken ("-" where nothing changes)
"""

from datetime import UTC, datetime, timedelta

from tenants.models import Scope

COLUMNS = ("nobody", "stranger", "viewer", "member", "admin", "operator", "read-only", "no csrf")

TABLE = """
                                                nobody stranger viewer member admin operator read-only no-csrf
GET    /api/v1/session                            401    200      200    200    200   200      200       -
POST   /api/v1/session                            401    401      401    401    401   401      401       401
DELETE /api/v1/session                            401    204      204    204    204   204      204       403
POST   /api/v1/session/password                   401    400      400    400    400   400      403       403
PUT    /api/v1/session/tour                       401    204      204    204    204   204      403       403
GET    /api/v1/tokens                             401    200      200    200    200   200      200       -
POST   /api/v1/tokens                             401    201      201    201    201   201      403       403
GET    /api/v1/tokens/terms                       401    200      200    200    200   200      200       -
DELETE /api/v1/tokens/<str:key>                   401    404      404    204    404   204      404       403
POST   /api/v1/tokens/<str:key>/rotate            401    404      404    201    404   404      404       403
GET    /api/v1/secrets                            401    200      200    200    200   200      200       -
PUT    /api/v1/secrets/<str:name>                 401    201      201    200    201   201      403       403
DELETE /api/v1/secrets/<str:name>                 401    404      404    204    404   404      403       403
GET    /api/v1/users                              401    403      403    403    403   200      200       -
POST   /api/v1/users                              401    403      403    403    403   201      403       403
GET    /api/v1/users/<str:username>               401    403      403    403    403   200      200       -
PATCH  /api/v1/users/<str:username>               401    403      403    403    403   200      403       403
POST   /api/v1/users/<str:username>/deactivate    401    403      403    403    403   200      403       403
GET    /api/v1/audit                              401    200      403    403    200   200      200       -
GET    /api/v1/audit/export                       401    200      403    403    200   200      200       -
GET    /api/v1/audit/status                       401    403      403    403    403   200      200       -
GET    /api/v1/tenants                            401    200      200    200    200   200      200       -
POST   /api/v1/tenants                            401    403      403    403    403   201      403       403
GET    /api/v1/tenants/<str:name>                 401    404      200    200    200   200      200       -
PATCH  /api/v1/tenants/<str:name>                 401    404      403    403    403   200      403       403
DELETE /api/v1/tenants/<str:name>                 401    404      403    403    403   409      403       403
GET    /api/v1/tenants/<str:name>/members         401    404      200    200    200   200      200       -
PUT    /api/v1/tenants/<str:name>/members/<str:username>
                                                  401    404      403    403    200   200      403       403
DELETE /api/v1/tenants/<str:name>/members/<str:username>
                                                  401    404      403    204    204   204      403       403
GET    /api/v1/tenants/<str:name>/invitations     401    404      403    403    200   200      200       -
POST   /api/v1/tenants/<str:name>/invitations     401    404      403    403    201   201      403       403
DELETE /api/v1/tenants/<str:name>/invitations/<str:key>
                                                  401    404      403    403    204   204      403       403
POST   /api/v1/invitations/look                   404    404      404    404    404   404      404       404
POST   /api/v1/invitations/accept                 401    404      404    404    404   404      403       403
POST   /api/v1/invitations/join                   404    404      404    404    404   404      404       404
GET    /api/v1/tenants/<str:name>/quota           401    404      200    200    200   200      200       -
PUT    /api/v1/tenants/<str:name>/quota           401    404      403    403    403   200      403       403
GET    /api/v1/tenants/<str:name>/archives/<str:digest>
                                                  401    404      200    200    200   200      200       -
PUT    /api/v1/tenants/<str:name>/archives/<str:digest>
                                                  401    404      403    200    200   200      403       403
GET    /api/v1/tenants/<str:name>/secrets         401    404      200    200    200   200      200       -
PUT    /api/v1/tenants/<str:name>/secrets/<str:secret>
                                                  401    404      403    403    200   200      403       403
DELETE /api/v1/tenants/<str:name>/secrets/<str:secret>
                                                  401    404      403    403    204   204      403       403
GET    /api/v1/tenants/<str:name>/templates       401    404      200    200    200   200      200       -
GET    /api/v1/tenants/<str:name>/templates/<str:template>
                                                  401    404      200    200    200   200      200       -
PUT    /api/v1/tenants/<str:name>/templates/<str:template>
                                                  401    404      403    200    200   200      403       403
DELETE /api/v1/tenants/<str:name>/templates/<str:template>
                                                  401    404      403    204    204   204      403       403

GET    /api/v1/jobs                               401    200      200    200    200   200      200       -
POST   /api/v1/jobs                               401    404      403    201    201   201      403       403
POST   /api/v1/jobs/actions                       401    404      403    200    200   200      403       403
POST   /api/v1/jobs/bulk                          401    404      403    201    201   201      403       403
POST   /api/v1/jobs/check                         401    404      200    200    200   200      403       403
GET    /api/v1/jobs/counts                        401    200      200    200    200   200      200       -
GET    /api/v1/jobs/groups                        401    200      200    200    200   200      200       -
GET    /api/v1/jobs/export                        401    200      200    200    200   200      200       -
GET    /api/v1/jobs/searches                      401    200      200    200    200   200      200       -
POST   /api/v1/jobs/searches                      401    404      403    201    201   201      403       403
DELETE /api/v1/jobs/searches/<int:search_id>      401    404      403    204    204   204      403       403
GET    /api/v1/jobs/usage                         401    200      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>                  401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/code             401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/artefacts        401    404      409    409    409   409      409       -
GET    /api/v1/jobs/<int:job_id>/artefacts/content
                                                  401    404      409    409    409   409      409       -
POST   /api/v1/jobs/<int:job_id>/cancel           401    404      403    200    200   200      403       403
POST   /api/v1/jobs/<int:job_id>/hold             401    404      403    200    200   200      403       403
POST   /api/v1/jobs/<int:job_id>/requeue          401    404      403    409    409   409      403       403
POST   /api/v1/jobs/<int:job_id>/release          401    404      403    200    200   200      403       403
GET    /api/v1/jobs/<int:job_id>/attempts         401    404      200    200    200   200      200       -
PATCH  /api/v1/jobs/<int:job_id>                  401    404      403    200    200   200      403       403
GET    /api/v1/jobs/<int:job_id>/dependencies     401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/input-workers    401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/events           401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/preemptions      401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/run-time         401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/logs             401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/logs/merged      401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/logs/search      401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/logs/download    401    404      409    409    409   409      409       -
GET    /api/v1/jobs/<int:job_id>/metrics          401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/progress         401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/scaling          401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/sensitivity      401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/why              401    404      200    200    200   200      200       -
GET    /api/v1/jobs/<int:job_id>/sessions         401    404      200    200    200   200      200       -
POST   /api/v1/jobs/<int:job_id>/ports/<str:port>/open
                                                  401    404      403    409    409   403      403       403
GET    /api/v1/jobs/<int:job_id>/throughputs      401    404      200    200    200   200      200       -

GET    /api/v1/throughputs                        401    200      200    200    200   200      200       -
PUT    /api/v1/throughputs/correction             401    404      403    403    200   200      403       403
DELETE /api/v1/throughputs/correction             401    404      403    403    204   204      403       403
GET    /api/v1/throughputs/interference           401    403      403    403    403   200      200       -
GET    /api/v1/throughputs/export                 401    404      200    200    200   200      200       -
POST   /api/v1/throughputs/import                 401    404      403    403    200   200      403       403

POST   /api/v1/what-if                            401    404      403    202    202   202      403       403
GET    /api/v1/what-if/<uuid:question_id>         401    404      404    200    404   200      200       -

GET    /api/v1/nodes                              401    200      200    200    200   200      200       -
POST   /api/v1/nodes                              401    403      403    403    403   201      403       403
GET    /api/v1/nodes/<str:name>                   401    200      200    200    200   200      200       -
PATCH  /api/v1/nodes/<str:name>                   401    403      403    403    403   200      403       403
DELETE /api/v1/nodes/<str:name>                   401    403      403    403    403   204      403       403
GET    /api/v1/nodes/<str:name>/metrics           401    200      200    200    200   200      200       -
POST   /api/v1/nodes/<str:name>/drain             401    403      403    403    403   200      403       403
POST   /api/v1/nodes/<str:name>/loan              401    403      403    403    403   200      403       403
POST   /api/v1/nodes/<str:name>/return            401    403      403    403    403   200      403       403
PUT    /api/v1/nodes/<str:name>/serving-pool      401    403      403    403    403   200      403       403
POST   /api/v1/nodes/<str:name>/token             401    403      403    403    403   200      403       403
GET    /api/v1/maintenance                        401    200      200    200    200   200      200       -
POST   /api/v1/maintenance                        401    403      403    403    403   201      403       403
GET    /api/v1/maintenance/<int:window_id>        401    200      200    200    200   200      200       -
PATCH  /api/v1/maintenance/<int:window_id>        401    403      403    403    403   200      403       403
DELETE /api/v1/maintenance/<int:window_id>        401    403      403    403    403   204      403       403
GET    /api/v1/reservations                       401    200      200    200    200   200      200       -
POST   /api/v1/reservations                       401    403      403    403    403   201      403       403
GET    /api/v1/reservations/<int:reservation_id>  401    404      200    200    200   200      200       -
PATCH  /api/v1/reservations/<int:reservation_id>  401    403      403    403    403   200      403       403
DELETE /api/v1/reservations/<int:reservation_id>  401    403      403    403    403   204      403       403
GET    /api/v1/serving-pools                      401    200      200    200    200   200      200       -
POST   /api/v1/serving-pools                      401    403      403    403    403   201      403       403
GET    /api/v1/serving-pools/<str:name>           401    200      200    200    200   200      200       -
PATCH  /api/v1/serving-pools/<str:name>           401    403      403    403    403   200      403       403
DELETE /api/v1/serving-pools/<str:name>           401    403      403    403    403   204      403       403
POST   /api/v1/serving-pools/<str:name>/returns   401    403      403    403    403   200      403       403
GET    /api/v1/virtual-clusters                   401    200      200    200    200   200      200       -
POST   /api/v1/virtual-clusters                   401    403      403    403    403   201      403       403
GET    /api/v1/virtual-clusters/<str:name>        401    200      200    200    200   200      200       -
PUT    /api/v1/virtual-clusters/<str:name>        401    403      403    403    403   200      403       403
DELETE /api/v1/virtual-clusters/<str:name>        401    403      403    403    403   204      403       403
GET    /api/v1/virtual-clusters/<str:name>/cells  401    200      200    200    200   200      200       -
GET    /api/v1/virtual-clusters/<str:name>/anomalies
                                                  401    200      200    200    200   200      200       -
POST   /api/v1/virtual-clusters/<str:name>/anomalies
                                                  401    403      403    403    403   202      403       403
GET    /api/v1/virtual-clusters/<str:name>/preemptions
                                                  401    200      200    200    200   200      200       -
GET    /api/v1/virtual-clusters/<str:name>/targets
                                                  401    200      200    200    200   200      200       -
GET    /api/v1/virtual-clusters/<str:name>/targets/jobs
                                                  401    200      200    200    200   200      200       -
GET    /api/v1/cells                              401    200      200    200    200   200      200       -
PUT    /api/v1/cells                              401    403      403    403    403   200      403       403
POST   /api/v1/cells/check                        401    403      403    403    403   200      403       403
POST   /api/v1/cells/proposal                     401    403      403    403    403   200      403       403
GET    /api/v1/cells/tree                         401    200      200    200    200   200      200       -
GET    /api/v1/cells/advice                       401    403      403    403    403   200      200       -
POST   /api/v1/cells/advice                       401    403      403    403    403   202      403       403
GET    /api/v1/cells/advice/<uuid:advice_id>      401    403      403    403    403   200      200       -
POST   /api/v1/cells/advice/<uuid:advice_id>/apply
                                                  401    403      403    403    403   409      403       403
GET    /api/v1/elasticity-savings                 401    403      403    403    403   200      200       -
POST   /api/v1/elasticity-savings                 401    403      403    403    403   202      403       403
GET    /api/v1/policies                           401    200      200    200    200   200      200       -
GET    /api/v1/gpu-models                         401    200      200    200    200   200      200       -
PATCH  /api/v1/gpu-models/<str:name>              401    403      403    403    403   200      403       403
GET    /api/v1/shared-gpus                        401    200      200    200    200   200      200       -
GET    /api/v1/map/jobs                           401    200      200    200    200   200      200       -
GET    /api/v1/map/nodes                          401    200      200    200    200   200      200       -

GET    /api/v1/cluster                            401    200      200    200    200   200      200       -
GET    /api/v1/cluster/settings                   401    200      200    200    200   200      200       -
PATCH  /api/v1/cluster/settings                   401    403      403    403    403   200      403       403
GET    /api/v1/failures                           401    200      200    200    200   200      200       -
GET    /api/v1/failure-rules                      401    200      200    200    200   200      200       -
PUT    /api/v1/failure-rules                      401    403      403    403    403   200      403       403
POST   /api/v1/failure-rules/test                 401    403      403    403    403   200      403       403
GET    /api/v1/cluster/usage                      401    200      200    200    200   200      200       -
GET    /api/v1/usage                              401    200      200    200    200   200      200       -
GET    /api/v1/usage/export                       401    200      200    200    200   200      200       -
GET    /api/v1/cluster/fragmentation              401    403      403    403    403   200      200       -
GET    /api/v1/rounds                             401    403      403    403    403   200      200       -
GET    /api/v1/rounds/<int:number>                401    403      403    403    403   200      200       -
GET    /api/v1/events                             401    200      200    200    200   200      200       -
GET    /api/v1/events/stream                      401    200      200    200    200   200      200       -
GET    /api/v1/virtual-clusters/<str:name>/fairness
                                                  401    200      200    200    200   200      200       -
GET    /api/v1/virtual-clusters/<str:name>/fairness/history
                                                  401    200      200    200    200   200      200       -
GET    /api/v1/fairness/violations                401    200      200    200    200   200      200       -
GET    /api/v1/ledger                             401    200      200    200    200   200      200       -
GET    /api/v1/ledger/export                      401    200      200    200    200   200      200       -
GET    /api/v1/ledger/<int:line_id>               401    404      200    200    200   200      200       -
GET    /api/v1/ledger/<int:line_id>/replay        401    404      409    409    409   409      409       -

GET    /api/v1/market/offers                      401    200      200    200    200   200      200       -
POST   /api/v1/market/offers                      401    403      403    403    201   201      403       403
GET    /api/v1/market/offers/<int:offer_id>       401    200      200    200    200   200      200       -
POST   /api/v1/market/offers/<int:offer_id>/withdraw
                                                  401    403      403    403    200   200      403       403
POST   /api/v1/market/offers/<int:offer_id>/take  401    403      403    403    201   201      403       403
GET    /api/v1/market/loans                       401    200      200    200    200   200      200       -
GET    /api/v1/market/loans/<int:loan_id>         401    200      200    200    200   200      200       -
POST   /api/v1/market/loans/<int:loan_id>/end     401    403      403    403    200   200      403       403
GET    /api/v1/market/rules                       401    200      200    200    200   200      200       -
POST   /api/v1/market/rules                       401    403      403    403    201   201      403       403
DELETE /api/v1/market/rules/<int:rule_id>         401    404      403    403    204   204      403       403
GET    /api/v1/market/accounts                    401    200      200    200    200   200      200       -
POST   /api/v1/market/accounts/<str:virtual_cluster>/grant
                                                  401    403      403    403    403   200      403       403
PUT    /api/v1/market/accounts/<str:virtual_cluster>/allowance
                                                  401    403      403    403    403   200      403       403
DELETE /api/v1/market/accounts/<str:virtual_cluster>/allowance
                                                  401    403      403    403    403   204      403       403
GET    /api/v1/market/transfers                   401    200      200    200    200   200      200       -
GET    /api/v1/market/transfers/export            401    200      200    200    200   200      200       -

GET    /api/v1/notifications                      401    200      200    200    200   200      200       -
PATCH  /api/v1/notifications                      401    200      200    200    200   200      403       403
GET    /api/v1/notifications/reports              401    200      200    200    200   200      200       -
POST   /api/v1/notifications/reports              401    404      403    403    200   200      403       403
PUT    /api/v1/notifications/address              401    200      200    200    200   200      403       403
POST   /api/v1/notifications/address/confirm      401    400      400    400    400   400      403       403
GET    /api/v1/webhooks                           401    404      403    403    200   200      200       -
POST   /api/v1/webhooks                           401    404      403    403    201   201      403       403
GET    /api/v1/webhooks/<int:webhook_id>          401    404      403    403    200   200      200       -
PATCH  /api/v1/webhooks/<int:webhook_id>          401    404      403    403    200   200      403       403
DELETE /api/v1/webhooks/<int:webhook_id>          401    404      403    403    204   204      403       403
POST   /api/v1/webhooks/<int:webhook_id>/secret   401    404      403    403    200   200      403       403
POST   /api/v1/webhooks/<int:webhook_id>/test     401    404      403    403    202   202      403       403
GET    /api/v1/webhooks/<int:webhook_id>/deliveries
                                                  401    404      403    403    200   200      200       -
POST   /api/v1/webhooks/<int:webhook_id>/deliveries/<int:delivery_id>/redeliver
                                                  401    404      403    403    202   202      403       403
GET    /api/v1/tenants/<str:name>/budget          401    404      200    200    200   200      200       -
PUT    /api/v1/tenants/<str:name>/budget          401    404      403    403    403   200      403       403
GET    /api/v1/tenants/<str:name>/user-limits     401    404      200    200    200   200      200       -
GET    /api/v1/tenants/<str:name>/members/<str:username>/quota
                                                  401    404      403    200    200   200      200       -
PUT    /api/v1/tenants/<str:name>/members/<str:username>/quota
                                                  401    404      403    403    200   200      403       403
GET    /api/v1/tenants/<str:name>/members/<str:username>/budget
                                                  401    404      403    200    200   200      200       -
PUT    /api/v1/tenants/<str:name>/members/<str:username>/budget
                                                  401    404      403    403    200   200      403       403
DELETE /api/v1/tenants/<str:name>/members/<str:username>/budget
                                                  401    404      403    403    204   204      403       403
GET    /api/v1/tenants/<str:name>/held            401    404      200    200    200   200      200       -
GET    /api/v1/budgets                            401    200      200    200    200   200      200       -
DELETE /api/v1/tenants/<str:name>/budget          401    404      403    403    403   204      403       403

GET    /api/schema                                401    200      200    200    200   200      200       -
GET    /api/docs                                  200    200      200    200    200   200      200       -
GET    /api/job-spec.schema.json                  200    200      200    200    200   200      200       -
POST   /api/agent/v1/sync                         401    401      401    401    401   401      401       401
POST   /api/agent/v1/logs                         401    401      401    401    401   401      401       401
POST   /api/agent/v1/secrets                      401    401      401    401    401   401      401       401
GET    /api/agent/v1/code/<int:attempt>           401    401      401    401    401   401      401       -
GET    /metrics                                   401    403      403    403    403   200      200       -
GET    /healthz                                   200    200      200    200    200   200      200       -
GET    /readyz                                    200    200      200    200    200   200      200       -
"""

#: Catch-alls at the end of the list of addresses: JSON 404 below /api, /ws and /static, else the page. Before
#: them the documentation, which is the same for everybody.
FALLBACKS = {"/docs", "/docs/", "/docs/<path:path>", r"/^(api|ws)(/|$)", r"/^static/", "/"}

_SPEC = {
    "name": "trial",
    "tenant": "red",
    "virtual_cluster": "shared",
    "command": ["true"],
    "resources": {"gpu": 1},
}

_TOMORROW = (datetime.now(UTC) + timedelta(days=1)).isoformat()

_SETTING = {"tenant": "red", "application": "bert", "gpu_model": "V100", "gpus": 1}
_TABLE = {"tenant": "red", "content": "application,gpus,gpu_model,rate\nbert,1,V100,2.5\n"}

#: What a token needs where roles do not say it: what everybody does with his own account, a token with
#: itself, and what depends on the thing that is asked for.
OWN_SCOPES = {
    ("DELETE", "/api/v1/session"): Scope.READ,
    ("POST", "/api/v1/session/password"): Scope.MANAGE,
    ("PUT", "/api/v1/session/tour"): Scope.MANAGE,
    # Viewers may, and it changes nothing; but it is as much work as submitting.
    ("POST", "/api/v1/jobs/check"): Scope.SUBMIT,
    ("POST", "/api/v1/tokens"): Scope.MANAGE,
    ("DELETE", "/api/v1/tokens/<str:key>"): Scope.READ,
    ("POST", "/api/v1/tokens/<str:key>/rotate"): Scope.READ,
    ("PUT", "/api/v1/secrets/<str:name>"): Scope.MANAGE,
    ("DELETE", "/api/v1/secrets/<str:name>"): Scope.MANAGE,
    ("DELETE", "/api/v1/tenants/<str:name>/members/<str:username>"): Scope.MANAGE,
    ("POST", "/api/v1/invitations/accept"): Scope.MANAGE,
    ("PATCH", "/api/v1/notifications"): Scope.MANAGE,
    ("POST", "/api/v1/notifications/reports"): Scope.MANAGE,
    ("PUT", "/api/v1/notifications/address"): Scope.MANAGE,
    ("POST", "/api/v1/notifications/address/confirm"): Scope.MANAGE,
    ("POST", "/api/v1/virtual-clusters/<str:name>/anomalies"): Scope.SUBMIT,
}

#: The query parameters of routes that need some.
QUERIES = {
    ("GET", "/api/v1/jobs/groups"): {"by": "tenant"},
    ("GET", "/api/v1/webhooks"): {"tenant": "red"},
    ("DELETE", "/api/v1/throughputs/correction"): _SETTING,
    ("GET", "/api/v1/throughputs/export"): {"tenant": "red"},
    ("GET", "/api/v1/jobs/<int:job_id>/logs/search"): {"q": "lines"},
    ("GET", "/api/v1/jobs/<int:job_id>/artefacts/content"): {"path": "model.pt"},
}

#: A body that is right, so that what refuses it is never the body.
BODIES = {
    ("POST", "/api/v1/session"): {"username": "nobody-at-all", "password": "wrong"},
    ("POST", "/api/v1/session/password"): {"current": "wrong", "new": "a-long-one-8231"},
    ("PUT", "/api/v1/session/tour"): {"seen": True},
    ("POST", "/api/v1/tokens"): {"name": "laptop", "scopes": ["read"]},
    ("POST", "/api/v1/tokens/<str:key>/rotate"): {},
    ("PUT", "/api/v1/secrets/<str:name>"): {"value": "a value"},
    ("PUT", "/api/v1/tenants/<str:name>/secrets/<str:secret>"): {"value": "a value"},
    ("PUT", "/api/v1/tenants/<str:name>/templates/<str:template>"): {
        "spec": {name: value for name, value in _SPEC.items() if name != "tenant"}
    },
    ("POST", "/api/v1/users"): {"username": "zoe"},
    ("PATCH", "/api/v1/users/<str:username>"): {"email": "mia@example.org"},
    ("POST", "/api/v1/users/<str:username>/deactivate"): {},
    ("POST", "/api/v1/tenants/<str:name>/invitations"): {"role": "viewer", "email": "mia@example.org"},
    ("POST", "/api/v1/invitations/look"): {"invitation": "not-one-of-ours"},
    ("POST", "/api/v1/invitations/accept"): {"invitation": "not-one-of-ours"},
    ("POST", "/api/v1/invitations/join"): {
        "invitation": "not-one-of-ours",
        "username": "zoe",
        "password": "a-long-one-8231",
    },
    ("POST", "/api/v1/tenants"): {"name": "green"},
    ("PATCH", "/api/v1/tenants/<str:name>"): {"title": "Red"},
    ("PUT", "/api/v1/tenants/<str:name>/members/<str:username>"): {"role": "viewer"},
    ("PUT", "/api/v1/tenants/<str:name>/quota"): {"limits": {"*": 4}},
    ("POST", "/api/v1/jobs"): _SPEC,
    ("POST", "/api/v1/jobs/check"): _SPEC,
    ("POST", "/api/v1/jobs/actions"): {"action": "cancel", "filter": {"tenant": "red", "state": "queued"}},
    ("POST", "/api/v1/jobs/searches"): {"name": "runs", "search": "state=running", "tenant": "red"},
    ("POST", "/api/v1/jobs/bulk"): {
        "tenant": "red",
        "jobs": [{name: value for name, value in _SPEC.items() if name != "tenant"}],
    },
    ("POST", "/api/v1/what-if"): {
        "tenant": "red",
        "spec": {name: value for name, value in _SPEC.items() if name != "tenant"},
    },
    ("PATCH", "/api/v1/notifications"): {"jobs": "all"},
    ("POST", "/api/v1/notifications/reports"): {"tenant": "red", "period": "week"},
    ("PUT", "/api/v1/notifications/address"): {"address": "mia@example.org"},
    ("POST", "/api/v1/notifications/address/confirm"): {"token": "not-one-of-ours"},
    ("POST", "/api/v1/webhooks"): {
        "tenant": "red",
        "url": "https://chat.example.org/hook",
        "topics": ["job.failed"],
    },
    ("PATCH", "/api/v1/webhooks/<int:webhook_id>"): {"title": "Chat"},
    ("PATCH", "/api/v1/jobs/<int:job_id>"): {"priority": 5},
    ("PUT", "/api/v1/tenants/<str:name>/budget"): {"amount": 100},
    ("PUT", "/api/v1/tenants/<str:name>/members/<str:username>/quota"): {"gpus": 2},
    ("PUT", "/api/v1/tenants/<str:name>/members/<str:username>/budget"): {"amount": 10},
    ("PUT", "/api/v1/throughputs/correction"): {**_SETTING, "value": 2.5},
    ("POST", "/api/v1/throughputs/import"): _TABLE,
    ("PATCH", "/api/v1/gpu-models/<str:name>"): {"price_per_hour": 2.0},
    ("POST", "/api/v1/nodes"): {"name": "node-new", "rack": "rack-1"},
    ("PATCH", "/api/v1/nodes/<str:name>"): {"cordoned": True},
    ("PUT", "/api/v1/nodes/<str:name>/serving-pool"): {"pool": None},
    ("POST", "/api/v1/maintenance"): {
        "reason": "new switches",
        "nodes": ["busy"],
        "starts_at": (datetime.now(UTC) + timedelta(days=9)).isoformat(),
        "ends_at": (datetime.now(UTC) + timedelta(days=10)).isoformat(),
    },
    ("PATCH", "/api/v1/maintenance/<int:window_id>"): {"reason": "new switches"},
    ("POST", "/api/v1/reservations"): {
        "name": "deadline",
        "tenant": "red",
        "gpu_model": "T4",
        "gpus": 1,
        "starts_at": (datetime.now(UTC) + timedelta(days=9)).isoformat(),
        "ends_at": (datetime.now(UTC) + timedelta(days=10)).isoformat(),
    },
    ("PATCH", "/api/v1/reservations/<int:reservation_id>"): {"note": "for the deadline"},
    ("POST", "/api/v1/serving-pools"): {"name": "search"},
    ("PATCH", "/api/v1/serving-pools/<str:name>"): {"return_seconds": 60},
    ("POST", "/api/v1/serving-pools/<str:name>/returns"): {"nodes": 1},
    ("PATCH", "/api/v1/cluster/settings"): {"spare_policy_plugin": {"name": "las"}},
    ("PUT", "/api/v1/failure-rules"): {"rules": []},
    ("POST", "/api/v1/failure-rules/test"): {"log": "bad\n"},
    ("POST", "/api/v1/virtual-clusters"): {"name": "new-vc"},
    ("PUT", "/api/v1/cells"): {"specification": {}, "version": 0},
    ("POST", "/api/v1/cells/check"): {"specification": {}},
    ("PUT", "/api/v1/virtual-clusters/<str:name>"): {"title": "Changed"},
    ("POST", "/api/v1/market/offers"): {
        "virtual_cluster": "shared",
        "lot": {"gpus": {"V100": 1}},
        "ends_at": _TOMORROW,
    },
    ("POST", "/api/v1/market/offers/<int:offer_id>/take"): {"virtual_cluster": "second"},
    ("POST", "/api/v1/market/rules"): {
        "virtual_cluster": "shared",
        "kind": "borrow",
        "most_gpus": 1,
        "waiting_seconds": 60,
    },
    ("POST", "/api/v1/market/accounts/<str:virtual_cluster>/grant"): {"credits": 1.5},
    ("PUT", "/api/v1/market/accounts/<str:virtual_cluster>/allowance"): {
        "credits": 1,
        "every_seconds": 3_600,
    },
}


def expected() -> dict[tuple[str, str], dict[str, int]]:
    """(method, route) -> who -> status."""
    rows: dict[tuple[str, str], dict[str, int]] = {}
    words = TABLE.split()[len(COLUMNS) :]
    width = 2 + len(COLUMNS)
    for start in range(0, len(words), width):
        method, route, *statuses = words[start : start + width]
        rows[method, route] = {
            who: int(status) for who, status in zip(COLUMNS, statuses, strict=True) if status != "-"
        }
    return rows


EXPECTED = expected()
