//! URLs, service files and password files.

use super::*;

fn address(text: &str) -> Result<Address, String> {
    Address::of(text).unwrap()
}

#[test]
fn a_url_is_read_and_shown_without_its_query() {
    let found =
        address("postgresql+psycopg2://ann@db.example:5433/studies?sslmode=disable").unwrap();
    assert_eq!(
        found.to_string(),
        "postgresql://ann@db.example:5433/studies"
    );
    let config = found.config(|_| None).unwrap();
    assert_eq!(config.get_user(), Some("ann"));
    assert_eq!(config.get_ports(), [5433]);
    assert_eq!(config.get_dbname(), Some("studies"));
    assert_eq!(config.get_ssl_mode(), SslMode::Disable);
    let socket = address("postgresql:///studies?host=/run/pg").unwrap();
    let config = socket.config(|_| None).unwrap();
    assert_eq!(config.get_hosts(), [Host::Unix("/run/pg".into())]);
    assert!(Address::of("mysql://host/db").is_none());
    assert!(Address::of("/tmp/tune.db").is_none());
}

#[test]
fn a_password_in_a_url_is_refused_and_not_repeated() {
    for url in [
        "postgresql://ann:s3cret@host/db",
        "postgresql://ann:s3c/ret@host/db",
        "postgresql://ann:s3c@ret@host/db",
        "postgresql://ann:s3c?ret@host/db",
        "postgresql://ann:s3c?a=ret@host/db",
        "postgresql://ann@host/db?password=s3cret",
        "postgresql://ann@host/db?sslmode=require&pass%77ord=s3cret",
    ] {
        let why = address(url).unwrap_err();
        assert!(why.contains("PGPASSWORD") && !why.contains("s3c"), "{why}");
    }
    for (url, word) in [
        ("postgresql://ann@host", "database"),
        ("postgresql://ann@host/db?sslmode=often", "often"),
        ("postgresql://ann@host:port/db", "port"),
        ("postgresql://ann@host/db?colour=red", "colour"),
    ] {
        let why = address(url).unwrap_err();
        assert!(why.contains(word), "{url}: {why}");
    }
}

#[test]
fn parameters_of_a_url_are_decoded() {
    let url = "postgresql://ann@host/db?sslrootcert=/etc/my%20ca/100%25.pem&application_name=a@b";
    let found = address(url).unwrap();
    assert_eq!(found.roots(), Some(Path::new("/etc/my ca/100%.pem")));
    let config = found.config(|_| None).unwrap();
    assert_eq!(config.get_application_name(), Some("a@b"));
    assert_eq!(config.get_hosts(), [Host::Tcp("host".into())]);
    for (text, expected) in [("a%2Fb", "a/b"), ("50%", "50%"), ("%zz%4", "%zz%4")] {
        assert_eq!(decoded(text).unwrap(), expected);
    }
    assert!(decoded("%ff").is_err());
}

#[test]
fn the_environment_adds_what_neither_the_url_nor_a_service_says() {
    let environment = |name: &str| {
        let value = match name {
            "PGHOST" => "db.home",
            "PGPORT" => "6001",
            "PGDATABASE" => "mine",
            "PGUSER" => "me",
            "PGSSLMODE" => "disable",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let read = |rest: &str| Address::read(rest, environment).unwrap();
    let config = |rest: &str| read(rest).config(environment).unwrap();
    let found = config("/");
    assert_eq!(found.get_hosts(), [Host::Tcp("db.home".into())]);
    assert_eq!(found.get_ports(), [6001]);
    assert_eq!(
        (found.get_user(), found.get_dbname()),
        (Some("me"), Some("mine"))
    );
    assert_eq!(found.get_ssl_mode(), SslMode::Disable);
    let found = config("ann@[::1],other/db?sslmode=require");
    let hosts = ["::1", "other"].map(|host| Host::Tcp(host.into()));
    assert_eq!(found.get_hosts(), hosts);
    assert_eq!(found.get_ports(), [6001], "no port is named");
    assert_eq!(
        (found.get_user(), found.get_dbname()),
        (Some("ann"), Some("db"))
    );
    assert_eq!(found.get_ssl_mode(), SslMode::Require);
    assert_eq!(config("[::1]:6002/db").get_ports(), [6002]);
    assert_eq!(config("host/db?port=6003").get_ports(), [6003]);
    let why = read("host/db").config(|name| (name == "PGPORT").then(|| "x".to_owned()));
    assert!(why.unwrap_err().contains("PGPORT"));
    assert!(Address::read("host", |_| None).is_err());
}

#[test]
fn passwords_come_from_the_environment_or_a_file_that_only_its_user_reads() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pass");
    let lines = "# comment\nother:*:*:*:wrong\nhost:5432:d\\:b:ann:it\\:s\\\\\n*:*:*:*:any\n";
    std::fs::write(&file, lines).unwrap();
    let mode = |bits| std::fs::set_permissions(&file, PermissionsExt::from_mode(bits)).unwrap();
    let of = |url: &str, own: Option<&str>| {
        let own = own.map(str::to_owned);
        let environment = |name: &str| match name {
            "PGPASSFILE" => Some(file.display().to_string()),
            "PGPASSWORD" => own.clone(),
            _ => None,
        };
        let config = address(url).unwrap().config(environment)?;
        Ok::<_, String>(
            config
                .get_password()
                .map(|p| String::from_utf8(p.into()).unwrap()),
        )
    };
    mode(0o600);
    let password = |url, own| of(url, own).unwrap().unwrap();
    assert_eq!(password("postgresql://ann@host/d:b", None), "it:s\\");
    assert_eq!(password("postgresql://bob@host/db", None), "any");
    assert_eq!(password("postgresql://bob@host/db", Some("mine")), "mine");
    mode(0o640);
    let why = of("postgresql://ann@host/db", None).unwrap_err();
    assert!(why.contains("chmod 600"), "{why}");
}

#[test]
fn a_service_adds_what_the_url_does_not_say() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("services");
    let text = "[a]\nhost=other\n\n[lab]\nhost=db.lab\nport=6000\ndbname=s\nuser=u\npassword=p\nsslmode=disable\n[z]\n";
    std::fs::write(&file, text).unwrap();
    let environment = |name: &str| match name {
        "PGSERVICEFILE" => Some(file.display().to_string()),
        "PGPASSWORD" => Some("of the environment".to_owned()),
        _ => None,
    };
    let config = |url: &str| address(url).unwrap().config(environment);
    let found = config("postgresql:///?service=lab").unwrap();
    assert_eq!(found.get_hosts(), [Host::Tcp("db.lab".into())]);
    assert_eq!(
        (found.get_ports(), found.get_user()),
        (&[6000][..], Some("u"))
    );
    assert_eq!(found.get_password(), Some(&b"p"[..]), "as for libpq");
    let found = config("postgresql://me@mine/own?service=lab").unwrap();
    assert_eq!(
        (found.get_user(), found.get_dbname()),
        (Some("me"), Some("own"))
    );
    assert_eq!(found.get_ssl_mode(), SslMode::Disable);
    assert_eq!(found.get_ports(), [6000], "the URL names none");
    let found = config("postgresql:///?service=lab&sslmode=verify-full").unwrap();
    assert_eq!(found.get_ssl_mode(), SslMode::Require);
    let why = config("postgresql:///?service=none").unwrap_err();
    assert!(why.contains("[none]"), "{why}");
}
