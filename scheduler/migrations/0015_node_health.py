import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0014_notifications")]

    operations = [
        migrations.CreateModel(
            name='NodeCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('verdict', models.CharField(choices=[('ok', 'Ok'), ('warning', 'Warning'), ('failed', 'Failed')], max_length=7)),
                ('message', models.CharField(blank=True, max_length=300)),
                ('gpu', models.PositiveSmallIntegerField(null=True)),
                ('since', models.DateTimeField()),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checks', to='scheduler.node')),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('node', 'name'), name='one_check_per_name'),
                    models.CheckConstraint(condition=models.Q(('verdict__in', ['ok', 'warning', 'failed'])), name='verdict_is_known'),
                ],
            },
        ),
        migrations.AddField(
            model_name='node',
            name='drain_deadline',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='cordoned_by',
            field=models.CharField(blank=True, default='', max_length=80),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='node',
            name='cordon_why',
            field=models.CharField(blank=True, default='', max_length=500),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='node',
            name='cordoned_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='returns_itself',
            field=models.BooleanField(default=False),
        ),
        migrations.RemoveConstraint(
            model_name='node',
            name='draining_is_cordoned',
        ),
        migrations.AddConstraint(
            model_name='node',
            constraint=models.CheckConstraint(condition=models.Q(('draining', False), ('cordoned', True), ('drain_deadline__isnull', False), _connector='OR'), name='draining_is_cordoned_or_will_be'),
        ),
        migrations.AddConstraint(
            model_name='node',
            constraint=models.CheckConstraint(condition=models.Q(('drain_deadline__isnull', True), ('draining', True), _connector='OR'), name='deadline_of_draining'),
        ),
        migrations.AddConstraint(
            model_name='node',
            constraint=models.CheckConstraint(condition=models.Q(('returns_itself', False), ('cordoned', True), _connector='OR'), name='returns_from_cordon'),
        ),
    ]
