from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0001_idempotent_answers'),
    ]

    operations = [
        migrations.CreateModel(
            name='Readiness',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('filling', models.TextField()),
            ],
        ),
    ]
