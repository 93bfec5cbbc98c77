"""Who may change what, and what cannot be lost by mistake."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tenants import services, tokens
from tenants.errors import ApplicationError, Conflict, Invalid, NotAllowed, NotFound
from tenants.models import AuditEntry, Membership, Role, Tenant, Token, User
from tenants.selectors import quota_of, viewer_of
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.builders import make_member, make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator():
    return viewer_of(make_user("olga", operator=True))


@pytest.fixture
def red():
    return make_tenant("red")


def as_role(tenant: Tenant, role: Role, name: str = ""):
    return viewer_of(make_member(tenant, name, role=role))


def roles(tenant: Tenant) -> dict[str, str]:
    return dict(Membership.objects.filter(tenant=tenant).values_list("user__username", "role"))


def last_entry() -> tuple:
    entry = AuditEntry.objects.order_by("-id").first()
    return entry and (entry.action, entry.subject, entry.before, entry.after)


class TestMembers:
    def test_an_admin_gives_roles_and_takes_them_back(self, red):
        ann, ben = as_role(red, Role.ADMIN, "ann"), make_member(red, "ben", role=Role.VIEWER)
        assert not services.member_set(by=ann, tenant=red, username="ben", role=Role.MEMBER)[1]
        assert not services.member_set(by=ann, tenant=red, username="ben", role=Role.VIEWER)[1]
        assert roles(red) == {"ann": "admin", "ben": "viewer"}
        assert last_entry() == ("member.change", "ben", {"role": "member"}, {"role": "viewer"})
        services.member_remove(by=ann, tenant=red, username=ben.username)
        assert roles(red) == {"ann": "admin"}
        assert last_entry() == (
            "member.remove",
            "ben",
            {"tenant": "red", "user": "ben", "role": "viewer"},
            None,
        )

    @pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
    def test_lesser_roles_grant_nothing_not_even_their_own(self, red, role):
        by, ben = as_role(red, role), make_user("ben")
        for granted in Role:
            with pytest.raises(NotAllowed, match="needs the role admin"):
                services.member_set(by=by, tenant=red, username=ben.username, role=granted)
            with pytest.raises(NotAllowed):
                services.member_set(by=by, tenant=red, username=by.user.username, role=granted)

    def test_an_admin_of_another_tenant_is_a_stranger_here(self, red):
        other = as_role(make_tenant("blue"), Role.ADMIN)
        with pytest.raises(NotFound):
            services.member_set(by=other, tenant=red, username=other.user.username, role=Role.VIEWER)
        with pytest.raises(NotFound):
            services.member_remove(by=other, tenant=red, username="anybody")

    def test_the_last_admin_stays_unless_an_operator_says_otherwise(self, red, operator):
        ann = as_role(red, Role.ADMIN, "ann")
        with pytest.raises(Conflict, match="last admin"):
            services.member_set(by=ann, tenant=red, username="ann", role=Role.MEMBER)
        with pytest.raises(Conflict, match="last admin"):
            services.member_remove(by=ann, tenant=red, username="ann")
        make_member(red, "ben", role=Role.ADMIN)
        User.objects.filter(username="ben").update(is_active=False)
        with pytest.raises(Conflict, match="last admin"):
            services.member_remove(by=ann, tenant=red, username="ann")
        User.objects.filter(username="ben").update(is_active=True)
        services.member_set(by=ann, tenant=red, username="ann", role=Role.MEMBER)
        services.member_remove(by=operator, tenant=red, username="ben")
        assert roles(red) == {"ann": "member"}

    def test_a_member_may_leave(self, red):
        ben = as_role(red, Role.VIEWER, "ben")
        services.member_remove(by=ben, tenant=red, username="ben")
        assert roles(red) == {}

    def test_unknown_and_inactive_users_can_not_be_added(self, red, operator):
        User.objects.filter(pk=make_user("gone").pk).update(is_active=False)
        for username in ("gone", "never-was"):
            with pytest.raises(NotFound, match="no active user"):
                services.member_set(by=operator, tenant=red, username=username, role=Role.VIEWER)

    def test_setting_the_same_role_again_is_no_news(self, red, operator):
        make_member(red, "ben", role=Role.MEMBER)
        before = last_entry()
        services.member_set(by=operator, tenant=red, username="ben", role=Role.MEMBER)
        assert last_entry() == before


@pytest.mark.django_db(transaction=True)
def test_two_admins_can_not_both_leave_at_the_same_moment():
    red = make_tenant("red")
    admins = [as_role(red, Role.ADMIN, name) for name in ("ann", "ben")]
    start, refused = threading.Barrier(2), []

    def leave(by) -> None:
        try:
            start.wait(PATIENCE_SECONDS)
            services.member_remove(by=by, tenant=red, username=by.user.username)
        except ApplicationError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=leave, args=(by,)) for by in admins]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert [type(error) for error in refused] == [Conflict]
    assert len(roles(red)) == 1


class TestQuota:
    def test_it_is_replaced_as_a_whole_with_a_record(self, red, operator):
        services.quota_set(by=operator, tenant=red, limits={"*": 16, "V100": 8})
        services.quota_set(by=operator, tenant=red, limits={"*": 4})
        assert quota_of(red) == {"*": 4}
        assert last_entry() == ("quota.change", "*", {"gpus": 16}, {"gpus": 4})

    def test_an_admin_of_the_tenant_can_not_raise_it(self, red):
        with pytest.raises(NotAllowed):
            services.quota_set(by=as_role(red, Role.ADMIN), tenant=red, limits={"*": 1000})


class TestTenants:
    def test_a_name_is_taken_once(self, operator):
        services.tenant_create(by=operator, name="red")
        with pytest.raises(Conflict) as caught:
            services.tenant_create(by=operator, name="red")
        assert caught.value.fields[0].field == "name"
        assert Tenant.objects.count() == 1

    def test_a_new_title_makes_a_new_version(self, red, operator):
        assert (
            services.tenant_change(by=operator, tenant=red, changes={"title": "Red team"}).version
            == red.version + 1
        )


class TestUsers:
    def test_a_random_password_is_told_once_and_works(self, operator):
        user, password = services.user_create(by=operator, username="ann")
        assert len(password) >= 20
        assert User.objects.get(username="ann").check_password(password)
        assert password not in str(list(AuditEntry.objects.values()))
        assert not user.is_operator

    def test_a_chosen_password_must_be_hard_to_guess_and_is_not_told(self, operator):
        with pytest.raises(Invalid) as caught:
            services.user_create(by=operator, username="ann", password="password")
        assert caught.value.fields[0].field == "password"
        assert services.user_create(by=operator, username="ann", password="walrus-tin-9-bridge")[1] is None

    def test_only_an_operator_makes_users_and_operators(self, red):
        ann = as_role(red, Role.ADMIN)
        with pytest.raises(NotAllowed):
            services.user_create(by=ann, username="eve", is_operator=True)
        with pytest.raises(NotAllowed):
            services.user_change(by=ann, username=ann.user.username, is_operator=True)

    def test_the_last_operator_stays(self, operator):
        for change in ({"is_operator": False}, {"is_active": False}):
            with pytest.raises(Conflict, match="last operator"):
                services.user_change(by=operator, username="olga", **change)
        make_user("otto", operator=True)
        assert not services.user_change(by=operator, username="olga", is_operator=False).is_operator
        assert last_entry() == (
            "user.change",
            "olga",
            {"is_operator": True},
            {"is_operator": False},
        )

    def test_an_inactive_operator_does_not_count_as_one(self, operator):
        User.objects.filter(pk=make_user("otto", operator=True).pk).update(is_active=False)
        with pytest.raises(Conflict):
            services.user_change(by=operator, username="olga", is_operator=False)

    def test_a_new_password_must_be_hard_to_guess(self):
        ann = viewer_of(make_user("ann", password="walrus-tin-9-bridge"))
        with pytest.raises(Invalid):
            services.password_change(by=ann, new="ann")
        services.password_change(by=ann, new="bridge-9-tin-walrus")
        assert User.objects.get(username="ann").check_password("bridge-9-tin-walrus")


class TestTokens:
    def test_only_a_hash_of_the_secret_is_stored(self):
        ann = viewer_of(make_user("ann"))
        token, text = services.token_create(by=ann, name="laptop")
        key, secret = tokens.split(text, tokens.USER_PREFIX)
        assert (key, tokens.matches(secret, token.digest)) == (token.key, True)
        assert secret not in str(list(Token.objects.values())) + str(list(AuditEntry.objects.values()))

    def test_one_made_by_a_token_does_not_outlive_it(self):
        user = make_user("ann")
        end = timezone.now() + timedelta(days=3)
        first = Token.objects.create(user=user, name="x", key="k", digest=b"d", expires_at=end)
        by = viewer_of(user, token=first)
        assert services.token_create(by=by, name="forever")[0].expires_at == end
        assert services.token_create(by=by, name="longer", expires_in_days=30)[0].expires_at == end
        assert services.token_create(by=by, name="shorter", expires_in_days=1)[0].expires_at < end

    def test_there_is_a_most(self, monkeypatch):
        monkeypatch.setattr(services, "TOKENS_PER_USER", 2)
        ann = viewer_of(make_user("ann"))
        services.token_create(by=ann, name="a")
        services.token_create(by=ann, name="b")
        with pytest.raises(Conflict, match="revoke one"):
            services.token_create(by=ann, name="c")

    def test_others_can_not_revoke_it_and_operators_can(self, operator):
        token, _ = services.token_create(by=viewer_of(make_user("ann")), name="laptop")
        with pytest.raises(NotFound):
            services.token_revoke(by=viewer_of(make_user("eve")), key=token.key)
        services.token_revoke(by=operator, key=token.key)
        assert not Token.objects.exists()
