#: Whose a secret is; where a job does not say which, its user's own comes first. It is not with the models:
#: what reads jobs has neither settings nor a database.
SECRET_SCOPES = ("user", "tenant")
